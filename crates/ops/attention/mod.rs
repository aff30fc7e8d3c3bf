//! `attention.*`: softmax(q kᵀ · scale) v over a paged cache, for new tokens (prefill) and for one token a
//! sequence (decode).
//!
//! A sequence's token t is row `t % block_size` of block `block_table[sequence, t / block_size]`. Query head h
//! reads key-value head `h / (num_heads / num_kv_heads)`. LSE is the natural logarithm of the sum of
//! exponentials, a sink's included. A row that sees no token gives zeros and LSE −∞ (with a sink: the sink).

pub mod decode;
pub mod merge_state;
mod options;
mod paged;
pub mod prefill;

pub use decode::{Decode, decode, decode_into};
pub use merge_state::{MergeState, merge_state, merge_state_into};
pub use options::{Mask, Options};
pub use paged::{Sequence, Spans, Tensors, decode_spans, prefill_spans};
pub use prefill::{Prefill, prefill, prefill_into};
