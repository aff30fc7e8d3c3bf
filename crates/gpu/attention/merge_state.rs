//! `attention.merge_state`.

use crate::op::gpu_op;
use crate::shape::code;
use crate::{Grid, Jit, params};
use kernels_ops::attention::MergeState;

static MERGE_STATE: Jit = Jit::new("merge_state", include_str!("merge_state.cu"), &["T"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&MERGE_STATE];

gpu_op! { merge_state for MergeState |gpu, a, ctx| {
    let (rows, heads, dim) = (a.out.dim(0), a.out.dim(1), a.out.dim(2));
    let warps = gpu.warps(128);
    let params = params![
        a.out_a, a.out_a.stride(0), a.out_a.stride(1), a.lse_a, a.lse_a.stride(0),
        a.out_b, a.out_b.stride(0), a.out_b.stride(1), a.lse_b, a.lse_b.stride(0),
        a.out, a.out.stride(0), a.out.stride(1), a.lse, a.lse.stride(0), rows, heads, dim
    ];
    let grid = Grid::of((rows * heads).div_ceil(warps), 128);
    gpu.launch(&MERGE_STATE, [code(a.out.dtype()), 0, 0, 0], grid, &params)
} }
