//! `kvcache.qk_norm_rope_store`: `layernorm.qk_norm_rope` (Henry et al. 2020; Su et al. 2021) and
//! `kvcache.reshape_and_cache` (Kwon et al. 2023) in one pass.

use super::paged::{CACHE, check, slot, store};
use super::rope_and_cache::{self, Cut, RopeAndCache};
use crate::data::{normal, poison};
use crate::embeddings::rope;
use crate::layernorm::{check_norms, norm_and_turn_token};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// RMS normalisation of each head of q and k, rotary position embedding, in place, and the new keys and values into a paged cache.
    ///
    /// What `layernorm.qk_norm_rope` and then `kvcache.reshape_and_cache` do: the cache gets k as it is rounded
    /// in place. A position outside the cos-sin cache leaves its token as it is, stores nothing for it, and gives
    /// the error `OutOfRange`; slots are as in `kvcache.reshape_and_cache`. The shape fact for selection is
    /// head_dim.
    pub struct QkNormRopeStore = "kvcache.qk_norm_rope_store" {
        /// `[tokens]`, i32, i64 or u32.
        reads positions,
        /// `[tokens, num_heads, head_dim]`, f32, f16 or bf16; a dense last dimension (columns of a fused qkv).
        writes q,
        /// `[tokens, num_kv_heads, head_dim]`, likewise.
        writes k,
        /// Shape and type of `k`; a dense last dimension.
        reads value,
        /// `[head_dim]`: of q's norm.
        reads q_weight,
        /// `[head_dim]`: of k's norm.
        reads k_weight,
        /// `[max_positions, rotary_dim]` f32: cosines in the first half, sines in the second.
        reads cos_sin_cache,
        /// `[blocks, block_size, num_kv_heads, head_dim]`, f32, f16, bf16, i8 or f8_e4m3; a dense last dimension.
        writes key_cache,
        /// Shape and type of `key_cache`.
        writes value_cache,
        /// `[tokens]`, i32, i64 or u32.
        reads slot_mapping,
        /// Added to the mean square, inside the root.
        value eps: f32,
        /// Pairs (j, j + rotary_dim / 2); otherwise (2j, 2j + 1).
        value is_neox: bool,
        /// What keys are divided by; 1 for none.
        value k_scale: f32,
        /// What values are divided by; 1 for none.
        value v_scale: f32,
    }
}

/// Normalises and turns `q` and `k` in place, and stores `k` and `value` in their slots.
///
/// # Errors
/// A position or slot outside its cache, shapes or types that do not fit, or no usable kernel.
pub fn qk_norm_rope_store<'a>(
    positions: impl Into<View<'a>>,
    [q, k]: [ViewMut<'a>; 2],
    value: impl Into<View<'a>>,
    [q_weight, k_weight]: [View<'a>; 2],
    eps: f32,
    cos_sin_cache: impl Into<View<'a>>,
    is_neox: bool,
    [key_cache, value_cache]: [ViewMut<'a>; 2],
    slot_mapping: impl Into<View<'a>>,
    [k_scale, v_scale]: [f32; 2],
) -> Result<()> {
    QkNormRopeStore {
        positions: positions.into(),
        q,
        k,
        value: value.into(),
        q_weight,
        k_weight,
        cos_sin_cache: cos_sin_cache.into(),
        key_cache,
        value_cache,
        slot_mapping: slot_mapping.into(),
        eps,
        is_neox,
        k_scale,
        v_scale,
    }
    .run()
}

impl QkNormRopeStore<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let valid = rope::check(Self::OP, self.positions, &self.q, &self.k, self.cos_sin_cache)?;
        check_norms(Self::OP, &self.q, [self.q_weight, self.k_weight])?;
        let caches = [self.key_cache.as_view(), self.value_cache.as_view()];
        let (new, scales) = ([self.k.as_view(), self.value], [self.k_scale, self.v_scale]);
        check(Self::OP, ["k", "value"], new, caches, self.slot_mapping, scales)?;
        let none = self.q.dim(0) == 0 || self.q.dim(2) == 0 || self.q.dim(1) + self.k.dim(1) == 0;
        Ok(Valid { key: valid.key.with_weight(self.key_cache.dtype()), empty: none })
    }
}

unsafe fn reference(ctx: &Ctx, a: &QkNormRopeStore<'_>) -> Result<(), RunError> {
    for t in 0..a.q.dim(0) {
        // SAFETY: t is below the number of positions and slots; heads are inside q and k, the slot in the caches.
        unsafe {
            let Some(p) = rope::position(ctx, &a.positions, &a.cos_sin_cache, t) else { continue };
            let heads = [(&a.q, &a.q_weight), (&a.k, &a.k_weight)];
            norm_and_turn_token(heads, a.eps, t, &a.cos_sin_cache, p, a.is_neox);
            let Some(s) = slot(ctx, &a.slot_mapping, &a.key_cache, t) else { continue };
            store(&a.k.as_view(), t, &a.key_cache, s, a.k_scale);
            store(&a.value, t, &a.value_cache, s, a.v_scale);
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: QkNormRopeStore,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, CACHE),
    run: reference,
});

crate::contract!(QkNormRopeStore);

impl Contract for QkNormRopeStore<'static> {
    type Params = Cut;
    const OUTPUTS: &'static [usize] = &[1, 4, 5];

    fn cases() -> Vec<Case<Cut>> {
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for cache in CACHE.iter() {
                for (tokens, q_heads, k_heads, dim, rotary, is_neox) in [
                    (5, 4, 2, 64, 64, true),
                    (3, 3, 1, 20, 12, false),
                    (0, 2, 1, 64, 64, true),
                    (130, 2, 1, 32, 32, true),
                ] {
                    cases.push(case(dtype, cache, tokens, q_heads, k_heads, dim, rotary, is_neox));
                }
            }
            let mut with_nan = case(dtype, dtype, 3, 2, 1, 64, 64, true);
            poison(&mut with_nan.tensors[1], 70);
            with_nan.name.push_str(", a NaN");
            cases.push(with_nan);
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Cut>> {
        let of = |d| [1, 16, 512].map(|t| case(d, d, t, 32, 8, 128, 128, true));
        FLOATS.into_iter().flat_map(of).collect()
    }

    fn bind<'a>(cut: &Cut, tensors: &'a mut [Tensor]) -> Option<QkNormRopeStore<'a>> {
        let [rest @ .., q_weight, k_weight] = tensors else { return None };
        let stored = RopeAndCache::bind(cut, rest)?;
        Some(QkNormRopeStore {
            positions: stored.positions,
            q: stored.q,
            k: stored.k,
            value: stored.value,
            q_weight: q_weight.view(),
            k_weight: k_weight.view(),
            cos_sin_cache: stored.cos_sin_cache,
            key_cache: stored.key_cache,
            value_cache: stored.value_cache,
            slot_mapping: stored.slot_mapping,
            eps: 1e-6,
            is_neox: stored.is_neox,
            k_scale: stored.k_scale,
            v_scale: stored.v_scale,
        })
    }

    fn tolerance(key: Key) -> Tolerance {
        // A sum of two products may cancel: the absolute part is their rounding, for values of order 1.
        Tolerance { abs: 4e-6, ..Tolerance::rounded(key, 1.01, 4e-6) }
    }

    fn tolerance_of(key: Key, output: usize) -> Tolerance {
        if output == 0 { Self::tolerance(key) } else { RopeAndCache::tolerance_of(key, output) }
    }

    fn cost(a: &QkNormRopeStore<'_>) -> Cost {
        let turned = (a.q.bytes() + a.k.bytes()) as u64;
        let cos_sin = (a.q.dim(0) * a.cos_sin_cache.dim(1) * 4) as u64;
        let stored = (2 * a.k.layout().elements() * a.key_cache.dtype().block_bytes()) as u64;
        let elements = (a.q.layout().elements() + a.k.layout().elements()) as u64;
        let read = turned + a.value.bytes() as u64 + cos_sin;
        Cost { read, written: turned + stored, flops: 7 * elements }
    }
}

/// A case of `kvcache.rope_and_cache`, and the two weights.
fn case(
    dtype: DType,
    cache: DType,
    tokens: usize,
    q_heads: usize,
    k_heads: usize,
    dim: usize,
    rotary: usize,
    is_neox: bool,
) -> Case<Cut> {
    let mut case = rope_and_cache::case(dtype, cache, tokens, q_heads, k_heads, dim, rotary, is_neox);
    case.tensors.extend([normal(3, dtype, &[dim], 1.0), normal(4, dtype, &[dim], 1.0)]);
    case
}
