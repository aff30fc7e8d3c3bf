//! `sampling.*`: from logits to probabilities and tokens.

mod sample;
mod softmax;

pub use sample::{Draw, Sample, sample, sample_into};
pub use softmax::{Softmax, softmax, softmax_into};

use crate::data::Rng;

/// The uniform number in [0, 1) that decides row `row` of a draw with `seed`: SplitMix64 from a state that
/// spreads rows and seeds. Part of the contract: every kernel draws with it, so a seed reproduces anywhere.
pub fn uniform(seed: u64, row: usize) -> f64 {
    Rng::new(seed ^ (row as u64).wrapping_mul(0xD1B5_4A32_D192_ED03)).uniform()
}
