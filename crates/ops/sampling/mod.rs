//! `sampling.*`: from logits to probabilities and tokens. In the order of a sampler: mask, penalties, softmax
//! at a temperature, filters, draw.

pub mod apply_mask;
pub mod penalties;
mod renorm;
pub mod sample;
pub mod softmax;
pub mod top_k_renorm;
pub mod top_p_renorm;

pub use apply_mask::{ApplyMask, apply_mask};
pub use penalties::{Penalties, penalties};
pub use sample::{Draw, Sample, sample, sample_into};
pub use softmax::{Softmax, softmax, softmax_into};
pub use top_k_renorm::{TopKRenorm, top_k_renorm, top_k_renorm_into};
pub use top_p_renorm::{TopPRenorm, top_p_renorm, top_p_renorm_into};

use crate::data::Rng;

/// The uniform number in [0, 1) that decides row `row` of a draw with `seed`: SplitMix64 from a state that
/// spreads rows and seeds. Part of the contract: every kernel draws with it, so a seed reproduces anywhere.
pub fn uniform(seed: u64, row: usize) -> f64 {
    Rng::new(seed ^ (row as u64).wrapping_mul(0xD1B5_4A32_D192_ED03)).uniform()
}
