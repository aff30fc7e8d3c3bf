//! The instructions by plain numbers, so that what is laid where is tested without AMX too.

use super::{Multiply, NUMBERS, SECOND};
use crate::isa::amx::{Block, ROWS, STEP, TILE};
use kernels_core::{Backend, bf16};
use kernels_harness::{Filter, parity};

pub struct Emulated;

impl Emulated {
    /// The first `tiles` of x's two.
    ///
    /// # Safety
    /// As for [`Multiply`].
    unsafe fn multiply(Block { weights, x, steps, sums, add }: Block, tiles: usize) {
        for quarter in 0..4 {
            if quarter % 2 >= tiles {
                continue;
            }
            for (row, column) in (0..ROWS).flat_map(|r| (0..ROWS).map(move |c| (r, c))) {
                // SAFETY: every number is inside its tile.
                unsafe {
                    let to = sums.add(quarter * TILE + row * STEP).cast::<f32>().add(column);
                    let mut sum = if add { *to } else { 0.0 };
                    for k in 0..steps * NUMBERS {
                        let (step, i) = (k / NUMBERS * TILE, k % NUMBERS);
                        let a = weights.add(quarter / 2 * SECOND + step + row * STEP).cast::<bf16>().add(i);
                        let b = x.add(quarter % 2 * SECOND + step + i / 2 * STEP).cast::<bf16>();
                        sum += (*a).to_f32() * (*b.add(2 * column + i % 2)).to_f32();
                    }
                    to.write(sum);
                }
            }
        }
    }
}

impl Multiply for Emulated {
    unsafe fn one(&self, block: Block) {
        // SAFETY: passed on.
        unsafe { Self::multiply(block, 1) }
    }
    unsafe fn two(&self, block: Block) {
        // SAFETY: passed on.
        unsafe { Self::multiply(block, 2) }
    }
}

#[test]
fn attention_is_right_on_emulated_tiles() {
    let filter =
        Filter { ops: Some("attention.*".into()), backend: Some(Backend::SIMD), ..Filter::default() };
    let report = parity(&filter, |_, _, _| {}).expect("the registry holds together");
    let emulated: Vec<_> = report.kernels.iter().filter(|k| k.kernel.contains("emulated-amx")).collect();
    for k in &emulated {
        assert!(k.failures.is_empty() && k.cases > 0, "{k:#?}");
    }
    match emulated.len() {
        0 => eprintln!("SKIPPED: this processor has no AVX-512 with bf16"),
        n => assert_eq!(n, 2),
    }
}
