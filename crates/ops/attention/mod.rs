//! `attention.*`: softmax(q kᵀ · scale) v over a paged cache, for new tokens (prefill) and for one token a
//! sequence (decode).
//!
//! A sequence's token t is row `t % block_size` of block `block_table[sequence, t / block_size]`. Query head h
//! reads key-value head `h / (num_heads / num_kv_heads)`. LSE is the natural logarithm of the sum of
//! exponentials. A row that sees no token gives zeros and LSE −∞.

mod decode;
mod paged;
mod prefill;

pub use decode::{Decode, decode, decode_into};
pub use paged::{Sequence, Spans, Tensors, decode_spans, prefill_spans};
pub use prefill::{Prefill, prefill, prefill_into};
