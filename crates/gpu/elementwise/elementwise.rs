//! `elementwise.add`, `mul`, `scale`, `cast` and `copy`.

use crate::elementwise::walk::Walk;
use crate::op::gpu_op;
use crate::shape::code;
use crate::{Gpu, Grid, Jit, Runtime, params};
use kernels_core::{DType, RunError, View, ViewMut};
use kernels_ops::elementwise::{Add, Cast, Copy, Mul, Scale};

static ELEMENTWISE: Jit = Jit::new("elementwise", include_str!("elementwise.cu"), &["A", "O", "F", "DENSE"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&ELEMENTWISE];

gpu_op! { add for Add |gpu, a| { run(gpu, a.a, Some(a.b), &a.out, [a.a.dtype(), a.out.dtype()], 0, 0.0) } }
gpu_op! { mul for Mul |gpu, a| { run(gpu, a.a, Some(a.b), &a.out, [a.a.dtype(), a.out.dtype()], 1, 0.0) } }
gpu_op! { scale for Scale |gpu, a| { run(gpu, a.x, None, &a.out, [a.x.dtype(), a.out.dtype()], 2, a.factor) } }
gpu_op! { cast for Cast |gpu, a| { run(gpu, a.x, None, &a.out, [a.x.dtype(), a.out.dtype()], 3, 0.0) } }
gpu_op! { copy for Copy |gpu, a| {
    // Bits are copied: one type for each width.
    let dtype = match a.x.dtype().block_bytes() {
        1 => DType::U8,
        2 => DType::F16,
        4 => DType::I32,
        _ => DType::I64,
    };
    run(gpu, a.x, None, &a.out, [dtype; 2], 4, 0.0)
} }

const THREADS: usize = 128;

/// # Safety
/// Checked arguments on a device of `R`; elements are taken as `dtypes` (input, output).
unsafe fn run<R: Runtime>(
    gpu: Gpu<'_, R>,
    a: View<'_>,
    b: Option<View<'_>>,
    out: &ViewMut<'_>,
    [from, to]: [DType; 2],
    function: u16,
    factor: f32,
) -> Result<(), RunError> {
    let walk = Walk::over(a.layout(), b.as_ref().map(|b| b.layout()), out.layout());
    let a_turn = if walk.dense { (16 / to.block_bytes()).max(1) } else { 1 };
    let blocks = walk.count.div_ceil(a_turn * THREADS).min(1 << 20);
    let options = [code(from), code(to), function, walk.dense.into()];
    let params = params![a, b, *out, walk.count, factor, walk.words];
    // SAFETY: the parameters are the kernel's, of checked arguments.
    unsafe { gpu.launch(&ELEMENTWISE, options, Grid::of(blocks, THREADS as u32), &params) }
}
