//! The host's side of a GPU backend, written once over [`Vendor`], a driver's table of calls.

mod context;
mod driver;
mod graph;
pub mod library;
mod rtc;
mod staging;
mod vendor;

pub use context::{Context, Contexts, Current};
pub use driver::GpuDriver;
pub use graph::{Graph, capture};
pub use rtc::{Rtc, Unit};
pub use vendor::{Failure, Handle, Outcome, Vendor};
