//! `sampling.sample`.

use crate::op::gpu_op;
use crate::shape::{code, threads_for};
use crate::{Grid, Jit, params};
use kernels_ops::sampling::Sample;

static SAMPLE: Jit = Jit::new("sample", include_str!("sample.cu"), &["T"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&SAMPLE];

/// How many bits a weight of 1 has, so that the sum of a row fits into 62.
pub(super) fn unit_bits(cols: usize) -> i32 {
    62 - cols.next_power_of_two().trailing_zeros() as i32
}

gpu_op! { sample for Sample |gpu, a| {
    let Some(x) = a.logits.rows() else { return Ok(()) };
    // A weight has 24 bits of its own: some more for small ones are enough.
    let unit = 2f32.powi(unit_bits(x.cols).min(44));
    let params = params![
        a.logits, x.stride, a.ids, x.rows, x.cols, a.temperature, a.top_k, a.top_p, a.min_p, a.seed, unit
    ];
    let grid = Grid::of(x.rows, threads_for(x.cols, a.logits.dtype(), 1024));
    gpu.launch(&SAMPLE, [code(a.logits.dtype()), 0, 0, 0], grid, &params)
} }
