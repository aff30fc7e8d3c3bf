//! A user's crate: naming the backend is all it takes.

use kernels_toy as _;
