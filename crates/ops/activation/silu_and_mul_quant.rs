//! `activation.silu_and_mul_quant`: q, scales = quantised(silu(gate) · up), gate the first half of the last dimension,
//! up the second (Shazeer 2020; Yao et al. 2022, ZeroQuant).

use crate::args::Arg;
use crate::data::{normal, poison, unwritten};
use crate::element::{at, put};
use crate::quantization::{FLOOR, check_outputs, computed_tolerance, quantise};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Gated SiLU, and its rows as 8-bit values with a scale each.
    ///
    /// As `activation.silu_and_mul` and then a quantisation by rows, without rounding in between: what an 8-bit
    /// product takes next. In f32: m = max(|y|, 1e-10) of the row, the scale m / L and the values y · (L / m),
    /// rounded to even and saturated, where L is 127 for i8 and 448 for f8_e4m3. A NaN makes the row's scale NaN.
    pub struct SiluAndMulQuant = "activation.silu_and_mul_quant" {
        /// `[tokens, 2d]`, f32, f16 or bf16: gate, then up; rows may have a stride.
        reads x,
        /// `[tokens, d]`, i8 or f8_e4m3; rows may have a stride.
        writes q,
        /// `[tokens]` f32.
        writes scales,
    }
}

/// Values of type `dtype` and scales of the gated `x`, in new tensors.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn silu_and_mul_quant<'a>(x: impl Into<View<'a>>, dtype: DType) -> Result<(Tensor, Tensor)> {
    let x = x.into();
    let mut shape = x.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last /= 2;
    }
    // SAFETY: the kernel writes every element; on an error the tensors are dropped unread.
    let (mut q, mut scales) = unsafe {
        let q = Tensor::uninit(dtype, &shape, x.device())?;
        (q, Tensor::uninit(DType::F32, &shape[..shape.len().saturating_sub(1)], x.device())?)
    };
    silu_and_mul_quant_into(x, &mut q, &mut scales)?;
    Ok((q, scales))
}

/// Values and scales of the gated `x`, into `q` and `scales`.
///
/// # Errors
/// As [`silu_and_mul_quant`].
pub fn silu_and_mul_quant_into<'a>(
    x: impl Into<View<'a>>,
    q: impl Into<ViewMut<'a>>,
    scales: impl Into<ViewMut<'a>>,
) -> Result<()> {
    SiluAndMulQuant { x: x.into(), q: q.into(), scales: scales.into() }.run()
}

impl SiluAndMulQuant<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let arg = |name, view| Arg::new(Self::OP, name, view);
        let input = arg("x", self.x).dtype(DTypeSet::FLOAT)?.rank(2)?;
        let rows = input.rows()?;
        if !rows.cols.is_multiple_of(2) || (rows.cols == 0 && rows.rows > 0) {
            return Err(input
                .shape_error(format!("rows of a gate and as much after it expected; {} given", rows.cols)));
        }
        let values = (self.q.as_view(), DTypeSet::EIGHT_BIT, &[rows.rows, rows.cols / 2][..]);
        check_outputs(Self::OP, values, (self.scales.as_view(), &[rows.rows]))?;
        let key = Key::of(self.x.dtype()).with_weight(self.q.dtype());
        Ok(Valid { key, empty: rows.rows == 0 })
    }
}

unsafe fn reference(_: &Ctx, a: &SiluAndMulQuant<'_>) -> Result<(), RunError> {
    let (Some(rows), Some(out)) = (a.x.rows(), a.q.rows()) else { return Ok(()) };
    for r in 0..rows.rows {
        // SAFETY: rows and elements are inside their tensors.
        unsafe {
            let gated = |i: usize| {
                let (gate, up) = (at(&a.x, r * rows.stride + i), at(&a.x, r * rows.stride + out.cols + i));
                (super::silu_and_mul::silu(gate) * up) as f32
            };
            let values: Vec<f32> = (0..out.cols).map(gated).collect();
            let scale = quantise(&values, &a.q, r * out.stride, FLOOR);
            put(&a.scales, r * a.scales.stride(0), f64::from(scale));
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: SiluAndMulQuant,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::EIGHT_BIT),
    run: reference,
});

crate::contract!(SiluAndMulQuant);

impl Contract for SiluAndMulQuant<'static> {
    /// Half the columns to use.
    type Params = usize;
    const OUTPUTS: &'static [usize] = &[1, 2];

    fn cases() -> Vec<Case<usize>> {
        let sizes = [(1, 1, 0), (3, 17, 0), (2, 1536, 0), (5, 3420, 12), (0, 64, 0), (1, 11008, 0)];
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for to in DTypeSet::EIGHT_BIT.iter() {
                cases.extend(sizes.map(|(rows, d, gap)| case(dtype, to, rows, d, gap)));
                for element in [30, 70] {
                    let mut with_nan = case(dtype, to, 3, 40, 0);
                    poison(&mut with_nan.tensors[0], 80 + element);
                    with_nan.name = format!("{dtype} to {to}, a NaN at {element} of a row");
                    cases.push(with_nan);
                }
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<usize>> {
        let of = |d| [(1, 11008), (16, 11008), (512, 4096)].map(|(r, c)| case(d, DType::I8, r, c, 0));
        FLOATS.into_iter().flat_map(of).collect()
    }

    fn bind<'a>(d: &usize, tensors: &'a mut [Tensor]) -> Option<SiluAndMulQuant<'a>> {
        let [x, q, scales] = tensors else { return None };
        let (x, q) = (x.view().narrow(1, 0, 2 * d)?, q.view_mut().narrow(1, 0, *d)?);
        Some(SiluAndMulQuant { x, q, scales: scales.view_mut() })
    }

    fn tolerance(key: Key) -> Tolerance {
        computed_tolerance(key)
    }

    fn tolerance_of(key: Key, output: usize) -> Tolerance {
        if output == 0 { Self::tolerance(key) } else { Tolerance { abs: 0.0, rel: 1e-5 } }
    }

    fn cost(a: &SiluAndMulQuant<'_>) -> Cost {
        let written = (a.q.bytes() + a.scales.bytes()) as u64;
        Cost { read: a.x.bytes() as u64, written, flops: 8 * a.q.layout().elements() as u64 }
    }
}

fn case(dtype: DType, to: DType, rows: usize, d: usize, gap: usize) -> Case<usize> {
    let tensors = vec![
        normal(1, dtype, &[rows, 2 * d + gap], 2.0),
        unwritten(to, &[rows, d + gap]),
        unwritten(DType::F32, &[rows]),
    ];
    Case { name: format!("{dtype} to {to} [{rows}, 2x{d}] gap {gap}"), tensors, params: d }
}
