//! `quantization.per_token_group_quant`: groups of each row as i8 or f8_e4m3, each group with one scale (Yao et al.
//! 2022, ZeroQuant; groups of 128: DeepSeek-V3, 2024).

use super::dynamic;
use crate::args::in_range;
use crate::{Backend, Case, Contract, Cost, DTypeSet, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Groups of each row as i8 or f8_e4m3, each group with one scale.
    ///
    /// In f32: m = max(|x|, eps) of the group, the scale m / L and the values x · (L / m), rounded to even and
    /// saturated, where L is the type's largest. A NaN makes the group's scale NaN.
    pub struct PerTokenGroupQuant = "quantization.per_token_group_quant" {
        /// `[tokens, hidden]`, f32, f16 or bf16; rows may have a stride.
        reads x,
        /// Shape of `x`, i8 or f8_e4m3; rows may have a stride.
        writes q,
        /// `[tokens, hidden / group_size]` f32.
        writes scales,
        /// Divides hidden.
        value group_size: usize,
        /// The least magnitude that a scale is made from, above 0.
        value eps: f32,
    }
}

/// Values of type `dtype` and scales of `x`, in new tensors.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn per_token_group_quant<'a>(
    x: impl Into<View<'a>>,
    dtype: DType,
    group_size: usize,
    eps: f32,
) -> Result<(Tensor, Tensor)> {
    let x = x.into();
    let mut groups = x.shape().to_vec();
    if let Some(last) = groups.last_mut() {
        *last /= group_size.max(1);
    }
    // SAFETY: the kernel writes every element; on an error the tensors are dropped unread.
    let (mut q, mut scales) = unsafe {
        let q = Tensor::uninit(dtype, x.shape(), x.device())?;
        (q, Tensor::uninit(DType::F32, &groups, x.device())?)
    };
    per_token_group_quant_into(x, &mut q, &mut scales, group_size, eps)?;
    Ok((q, scales))
}

/// Values and scales of `x`, into `q` and `scales`.
///
/// # Errors
/// As [`per_token_group_quant`].
pub fn per_token_group_quant_into<'a>(
    x: impl Into<View<'a>>,
    q: impl Into<ViewMut<'a>>,
    scales: impl Into<ViewMut<'a>>,
    group_size: usize,
    eps: f32,
) -> Result<()> {
    PerTokenGroupQuant { x: x.into(), q: q.into(), scales: scales.into(), group_size, eps }.run()
}

impl PerTokenGroupQuant<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let (eps, device) = (self.eps, self.x.device());
        in_range(Self::OP, "eps", eps.into(), eps >= 1e-30 && eps.is_finite(), "1e-30 and above", device)?;
        let q = (self.q.as_view(), DTypeSet::EIGHT_BIT);
        dynamic::check(Self::OP, self.x, q, self.scales.as_view(), Some(self.group_size))
    }
}

unsafe fn reference(_: &Ctx, a: &PerTokenGroupQuant<'_>) -> Result<(), RunError> {
    // SAFETY: checked arguments on the host.
    unsafe { dynamic::reference(&a.x, &a.q, &a.scales, Some(a.group_size), a.eps) };
    Ok(())
}

kernel!(unsafe {
    op: PerTokenGroupQuant,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::EIGHT_BIT),
    run: reference,
});

crate::contract!(PerTokenGroupQuant);

impl Contract for PerTokenGroupQuant<'static> {
    /// Columns to use.
    type Params = usize;
    const OUTPUTS: &'static [usize] = &[1, 2];

    fn cases() -> Vec<Case<usize>> {
        DTypeSet::EIGHT_BIT.iter().flat_map(|to| dynamic::cases(to, Some(GROUP))).collect()
    }

    fn bench_cases() -> Vec<Case<usize>> {
        DTypeSet::EIGHT_BIT.iter().flat_map(|to| dynamic::bench_cases(to, Some(GROUP))).collect()
    }

    fn bind<'a>(cols: &usize, tensors: &'a mut [Tensor]) -> Option<PerTokenGroupQuant<'a>> {
        let [x, q, scales] = tensors else { return None };
        let (x, q) = (x.view().narrow(1, 0, *cols)?, q.view_mut().narrow(1, 0, *cols)?);
        Some(PerTokenGroupQuant { x, q, scales: scales.view_mut(), group_size: GROUP, eps: 1e-10 })
    }

    fn tolerance(_: Key) -> Tolerance {
        // Every step is one rounding of f32.
        Tolerance::EXACT
    }

    fn cost(a: &PerTokenGroupQuant<'_>) -> Cost {
        dynamic::cost(&a.x, &a.q, &a.scales)
    }
}

/// Group size of the cases.
const GROUP: usize = 128;
