//! `attention.merge_state`: two attention results over disjoint tokens as one over all of them (Ye et al. 2025,
//! FlashInfer): out = (o_a e^(s_a) + o_b e^(s_b)) / (e^(s_a) + e^(s_b)), LSE = ln(e^(s_a) + e^(s_b)).

use crate::args::Arg;
use crate::data::{normal, unwritten};
use crate::element::{at, put};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Two attention results over disjoint tokens, merged by their natural-log LSE.
    ///
    /// In f32, rounded once. A part with LSE −∞ is left out; two of them give zeros and LSE −∞.
    pub struct MergeState = "attention.merge_state" {
        /// `[tokens, num_heads, head_dim]`, f32, f16 or bf16; a dense last dimension.
        reads out_a,
        /// `[tokens, num_heads]` f32, natural logarithm.
        reads lse_a,
        /// Shape and type of `out_a`.
        reads out_b,
        /// `[tokens, num_heads]` f32, natural logarithm.
        reads lse_b,
        /// Shape and type of `out_a`.
        writes out,
        /// `[tokens, num_heads]` f32.
        writes lse,
    }
}

/// Both results as one, in new tensors: output and LSE.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn merge_state<'a>(
    out_a: impl Into<View<'a>>,
    lse_a: impl Into<View<'a>>,
    out_b: impl Into<View<'a>>,
    lse_b: impl Into<View<'a>>,
) -> Result<(Tensor, Tensor)> {
    let (out_a, lse_a): (View<'_>, View<'_>) = (out_a.into(), lse_a.into());
    let (out_b, lse_b): (View<'_>, View<'_>) = (out_b.into(), lse_b.into());
    // SAFETY: the kernel writes every element; on an error the tensors are dropped unread.
    let (mut out, mut lse) = unsafe {
        let out = Tensor::uninit(out_a.dtype(), out_a.shape(), out_a.device())?;
        (out, Tensor::uninit(DType::F32, lse_a.shape(), out_a.device())?)
    };
    merge_state_into(out_a, lse_a, out_b, lse_b, &mut out, &mut lse)?;
    Ok((out, lse))
}

/// Both results as one, into `out` and `lse`.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn merge_state_into<'a>(
    out_a: impl Into<View<'a>>,
    lse_a: impl Into<View<'a>>,
    out_b: impl Into<View<'a>>,
    lse_b: impl Into<View<'a>>,
    out: impl Into<ViewMut<'a>>,
    lse: impl Into<ViewMut<'a>>,
) -> Result<()> {
    MergeState {
        out_a: out_a.into(),
        lse_a: lse_a.into(),
        out_b: out_b.into(),
        lse_b: lse_b.into(),
        out: out.into(),
        lse: lse.into(),
    }
    .run()
}

impl MergeState<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let arg = |name, view| Arg::new(Self::OP, name, view);
        let a = arg("out_a", self.out_a).dtype(DTypeSet::FLOAT)?.rank(3)?.dense_last()?;
        let shape = [self.out_a.dim(0), self.out_a.dim(1), self.out_a.dim(2)];
        arg("out_b", self.out_b).like(a)?.shape(&shape)?.dense_last()?;
        arg("out", self.out.as_view()).like(a)?.shape(&shape)?.dense_last()?.output()?;
        for (name, lse) in [("lse_a", self.lse_a), ("lse_b", self.lse_b)] {
            arg(name, lse).dtype(DTypeSet::of(&[DType::F32]))?.shape(&shape[..2])?.rows()?;
        }
        let lse = arg("lse", self.lse.as_view()).dtype(DTypeSet::of(&[DType::F32]))?;
        lse.shape(&shape[..2])?.output()?.rows()?;
        Ok(Valid { key: Key::of(self.out_a.dtype()).with_fact(shape[2]), empty: shape[0] * shape[1] == 0 })
    }
}

unsafe fn reference(_: &Ctx, a: &MergeState<'_>) -> Result<(), RunError> {
    for t in 0..a.out.dim(0) {
        for h in 0..a.out.dim(1) {
            // SAFETY: token, head and element are inside all tensors.
            unsafe {
                let entry = |v: &View<'_>| at(v, t * v.stride(0) + h * v.stride(1));
                let (s_a, s_b) = (entry(&a.lse_a), entry(&a.lse_b));
                let max = if s_a > s_b || s_a.is_nan() { s_a } else { s_b };
                let weight = |s: f64| if s == f64::NEG_INFINITY { 0.0 } else { (s - max).exp() };
                let (w_a, w_b) = (weight(s_a), weight(s_b));
                let total = w_a + w_b;
                for i in 0..a.out.dim(2) {
                    // A part without weight may hold anything.
                    let part = |v: &View<'_>, w: f64| {
                        if w == 0.0 { 0.0 } else { w / total * at(v, t * v.stride(0) + h * v.stride(1) + i) }
                    };
                    let place = t * a.out.stride(0) + h * a.out.stride(1) + i;
                    put(&a.out, place, part(&a.out_a, w_a) + part(&a.out_b, w_b));
                }
                let lse = if total == 0.0 { f64::NEG_INFINITY } else { max + total.ln() };
                put(&a.lse, t * a.lse.stride(0) + h * a.lse.stride(1), lse);
            }
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: MergeState,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(MergeState);

impl Contract for MergeState<'static> {
    /// Elements of a head to use.
    type Params = usize;
    const OUTPUTS: &'static [usize] = &[4, 5];

    fn cases() -> Vec<Case<usize>> {
        let sizes = [(3, 4, 64, 0), (2, 3, 33, 5), (1, 1, 128, 0), (0, 4, 64, 0), (7, 2, 1, 0)];
        FLOATS.into_iter().flat_map(|d| sizes.map(|(t, h, dim, gap)| case(d, t, h, dim, gap))).collect()
    }

    fn bench_cases() -> Vec<Case<usize>> {
        FLOATS.into_iter().flat_map(|d| [16, 512].map(|t| case(d, t, 32, 128, 0))).collect()
    }

    fn bind<'a>(dim: &usize, tensors: &'a mut [Tensor]) -> Option<MergeState<'a>> {
        let [out_a, lse_a, out_b, lse_b, out, lse] = tensors else { return None };
        Some(MergeState {
            out_a: out_a.view().narrow(2, 0, *dim)?,
            lse_a: lse_a.view(),
            out_b: out_b.view().narrow(2, 0, *dim)?,
            lse_b: lse_b.view(),
            out: out.view_mut().narrow(2, 0, *dim)?,
            lse: lse.view_mut(),
        })
    }

    fn tolerance(key: Key) -> Tolerance {
        Tolerance { abs: 2e-6, ..Tolerance::rounded(key, 1.01, 2e-6) }
    }

    fn cost(a: &MergeState<'_>) -> Cost {
        let (read, lse) = (2 * a.out_a.bytes() + 2 * a.lse_a.bytes(), a.lse.bytes());
        let flops = 3 * a.out.layout().elements() as u64;
        Cost { read: read as u64, written: (a.out.bytes() + lse) as u64, flops }
    }
}

fn case(dtype: DType, tokens: usize, heads: usize, dim: usize, gap: usize) -> Case<usize> {
    let lse = |seed: u64| {
        let mut values = normal(seed, DType::F32, &[tokens, heads], 4.0).to_f32_vec().unwrap_or_default();
        // Nothing seen by one part, by both, far apart, and a NaN.
        for (i, special) in [
            (0, f32::NEG_INFINITY),
            (2 + seed as usize, f32::NEG_INFINITY),
            (5, 300.0 - 200.0 * seed as f32),
            (9, f32::NAN),
        ] {
            if let Some(v) = values.get_mut(i) {
                *v = special;
            }
        }
        Tensor::from_slice(&values, &[tokens, heads]).unwrap_or_else(|e| panic!("test data: {e}"))
    };
    let mut hidden = normal(1, dtype, &[tokens, heads, dim + gap], 1.0);
    if tokens * heads > 0 {
        // What a part without weight holds does not matter.
        crate::data::poison(&mut hidden, 0);
    }
    let tensors = vec![
        hidden,
        lse(1),
        normal(2, dtype, &[tokens, heads, dim + gap], 1.0),
        lse(2),
        unwritten(dtype, &[tokens, heads, dim + gap]),
        unwritten(DType::F32, &[tokens, heads]),
    ];
    Case { name: format!("{dtype} [{tokens}, {heads}, {dim}] gap {gap}"), tensors, params: dim }
}
