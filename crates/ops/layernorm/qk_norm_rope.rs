//! `layernorm.qk_norm_rope`: each head of q and k, h / sqrt(mean(h²) + eps) · w (Henry et al. 2020; Qwen 3, Gemma 3),
//! and then turned as [`rope`](mod@crate::embeddings::rope) turns it (Su et al. 2021), in place.

use crate::args::Arg;
use crate::data::{normal, poison};
use crate::element::at;
use crate::embeddings::rope::{Cut, case as rope_case, check, position, read_head, turned, write_head};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// RMS normalisation of each head of q and k, then rotary position embedding, in place.
    ///
    /// Computed in f32, rounded once. A position outside the cache leaves its token as it is and gives the
    /// error `OutOfRange`. q, k and both weights have one type: f32, f16 or bf16. The shape fact for selection
    /// is head_dim.
    pub struct QkNormRope = "layernorm.qk_norm_rope" {
        /// `[tokens, num_heads, head_dim]`; any strides but a dense last dimension (columns of a fused qkv).
        writes q,
        /// `[tokens, num_kv_heads, head_dim]`, likewise.
        writes k,
        /// `[head_dim]`: of q's norm.
        reads q_weight,
        /// `[head_dim]`: of k's norm.
        reads k_weight,
        /// `[tokens]`, i32, i64 or u32.
        reads positions,
        /// `[max_positions, rotary_dim]` f32: cosines in the first half, sines in the second.
        reads cos_sin_cache,
        /// Added to the mean square, inside the root.
        value eps: f32,
        /// Pairs (j, j + rotary_dim / 2); otherwise (2j, 2j + 1).
        value is_neox: bool,
    }
}

/// Normalises and turns `q` and `k` in place.
///
/// # Errors
/// A position outside the cache, shapes or types that do not fit, or no usable kernel.
pub fn qk_norm_rope<'a>(
    q: impl Into<ViewMut<'a>>,
    k: impl Into<ViewMut<'a>>,
    [q_weight, k_weight]: [View<'a>; 2],
    eps: f32,
    positions: impl Into<View<'a>>,
    cos_sin_cache: impl Into<View<'a>>,
    is_neox: bool,
) -> Result<()> {
    QkNormRope {
        q: q.into(),
        k: k.into(),
        q_weight,
        k_weight,
        positions: positions.into(),
        cos_sin_cache: cos_sin_cache.into(),
        eps,
        is_neox,
    }
    .run()
}

impl QkNormRope<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let valid = check(Self::OP, self.positions, &self.q, &self.k, self.cos_sin_cache)?;
        check_norms(Self::OP, &self.q, [self.q_weight, self.k_weight])?;
        let none = self.q.dim(0) == 0 || self.q.dim(1) + self.k.dim(1) == 0 || self.q.dim(2) == 0;
        Ok(Valid { empty: none, ..valid })
    }
}

/// Checks the weights of both norms.
pub(crate) fn check_norms(
    op: &'static str,
    q: &ViewMut<'_>,
    [q_weight, k_weight]: [View<'_>; 2],
) -> Result<(), CallError> {
    let query = Arg::new(op, "q", q.as_view());
    for (name, weight) in [("q_weight", q_weight), ("k_weight", k_weight)] {
        Arg::new(op, name, weight).like(query)?.shape(&[q.dim(2)])?.rows()?;
    }
    Ok(())
}

unsafe fn reference(ctx: &Ctx, a: &QkNormRope<'_>) -> Result<(), RunError> {
    for t in 0..a.q.dim(0) {
        // SAFETY: t is below the number of positions; the weights have head_dim elements.
        unsafe {
            let Some(p) = position(ctx, &a.positions, &a.cos_sin_cache, t) else { continue };
            let heads = [(&a.q, &a.q_weight), (&a.k, &a.k_weight)];
            norm_and_turn_token(heads, a.eps, t, &a.cos_sin_cache, p, a.is_neox);
        }
    }
    Ok(())
}

/// Every head of token `t`, normalised and turned by the angles of row `p` of the cache.
///
/// # Safety
/// Checked arguments on the host; token and row are inside.
pub(crate) unsafe fn norm_and_turn_token(
    both: [(&ViewMut<'_>, &View<'_>); 2],
    eps: f32,
    t: usize,
    cos_sin_cache: &View<'_>,
    p: usize,
    is_neox: bool,
) {
    for (x, weight) in both {
        for h in 0..x.dim(1) {
            // SAFETY: token and head are inside x, the weight has head_dim elements.
            unsafe {
                let mut head = read_head(x, t, h);
                let squares: f64 = head.iter().map(|v| v * v).sum();
                let scale = 1.0 / (squares / head.len() as f64 + f64::from(eps)).sqrt();
                head.iter_mut().enumerate().for_each(|(i, v)| *v *= scale * at(weight, i));
                turned(&mut head, cos_sin_cache, p, is_neox);
                write_head(x, t, h, &head);
            }
        }
    }
}

kernel!(unsafe {
    op: QkNormRope,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(QkNormRope);

impl Contract for QkNormRope<'static> {
    type Params = Cut;
    const OUTPUTS: &'static [usize] = &[1];

    fn cases() -> Vec<Case<Cut>> {
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for is_neox in [true, false] {
                for (tokens, q_heads, k_heads, dim, rotary) in [
                    (5, 4, 2, 64, 64),
                    (2, 2, 1, 80, 20),
                    (4, 3, 3, 6, 6),
                    (3, 4, 1, 256, 256),
                    (1, 1, 1, 128, 0),
                    (0, 4, 2, 64, 64),
                ] {
                    cases.push(case(dtype, tokens, q_heads, k_heads, dim, rotary, is_neox));
                }
                let mut with_nan = case(dtype, 3, 2, 1, 64, 64, is_neox);
                poison(&mut with_nan.tensors[1], 70);
                with_nan.name.push_str(", a NaN");
                cases.push(with_nan);
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Cut>> {
        FLOATS.into_iter().flat_map(|d| [1, 16, 512].map(|t| case(d, t, 32, 8, 128, 128, true))).collect()
    }

    fn bind<'a>(cut: &Cut, tensors: &'a mut [Tensor]) -> Option<QkNormRope<'a>> {
        let [positions, qkv, cos_sin_cache, q_weight, k_weight] = tensors else { return None };
        let [q, k] = cut.of(qkv)?;
        Some(QkNormRope {
            q,
            k,
            q_weight: q_weight.view(),
            k_weight: k_weight.view(),
            positions: positions.view(),
            cos_sin_cache: cos_sin_cache.view(),
            eps: 1e-6,
            is_neox: cut.is_neox,
        })
    }

    fn tolerance(key: Key) -> Tolerance {
        // A sum of two products may cancel: the absolute part is their rounding, for values of order 1.
        Tolerance { abs: 4e-6, ..Tolerance::rounded(key, 1.01, 4e-6) }
    }

    fn cost(a: &QkNormRope<'_>) -> Cost {
        let (n, tokens) = ((a.q.bytes() + a.k.bytes()) as u64, a.q.dim(0));
        let cache = (tokens * a.cos_sin_cache.dim(1) * 4) as u64;
        let elements = (a.q.layout().elements() + a.k.layout().elements()) as u64;
        Cost { read: n + cache, written: n, flops: 7 * elements }
    }
}

/// A case of `embeddings.rope`, and the two weights.
fn case(
    dtype: DType,
    tokens: usize,
    q_heads: usize,
    k_heads: usize,
    dim: usize,
    rotary: usize,
    is_neox: bool,
) -> Case<Cut> {
    let mut case = rope_case(dtype, tokens, q_heads, k_heads, dim, rotary, is_neox);
    case.tensors.extend([normal(2, dtype, &[dim], 1.0), normal(3, dtype, &[dim], 1.0)]);
    case
}
