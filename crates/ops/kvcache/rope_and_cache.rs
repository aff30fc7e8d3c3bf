//! `kvcache.rope_and_cache`: `embeddings.rope` (Su et al. 2021) and `kvcache.reshape_and_cache` (Kwon et al. 2023)
//! in one pass.

use super::paged::{CACHE, check, slot, store};
use crate::data::{ints, normal, unwritten};
use crate::embeddings::{cos_sin_cache, rope};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Rotary position embedding of q and k, in place, and the new keys and values into a paged cache.
    ///
    /// Bit for bit what `embeddings.rope` and then `kvcache.reshape_and_cache` do: the cache gets k as it is
    /// rounded in place. A position outside the cos-sin cache leaves its token unturned, stores nothing for it,
    /// and gives the error `OutOfRange`; slots are as in `kvcache.reshape_and_cache`. The shape fact for
    /// selection is head_dim.
    pub struct RopeAndCache = "kvcache.rope_and_cache" {
        /// `[tokens]`, i32, i64 or u32.
        reads positions,
        /// `[tokens, num_heads, head_dim]`, f32, f16 or bf16; a dense last dimension (columns of a fused qkv).
        writes q,
        /// `[tokens, num_kv_heads, head_dim]`, likewise.
        writes k,
        /// Shape and type of `k`; a dense last dimension.
        reads value,
        /// `[max_positions, rotary_dim]` f32: cosines in the first half, sines in the second.
        reads cos_sin_cache,
        /// `[blocks, block_size, num_kv_heads, head_dim]`, f32, f16, bf16, i8 or f8_e4m3; a dense last dimension.
        writes key_cache,
        /// Shape and type of `key_cache`.
        writes value_cache,
        /// `[tokens]`, i32, i64 or u32.
        reads slot_mapping,
        /// Pairs (j, j + rotary_dim / 2); otherwise (2j, 2j + 1).
        value is_neox: bool,
        /// What keys are divided by; 1 for none.
        value k_scale: f32,
        /// What values are divided by; 1 for none.
        value v_scale: f32,
    }
}

/// Turns `q` and `k` in place, and stores `k` and `value` in their slots.
///
/// # Errors
/// A position or slot outside its cache, shapes or types that do not fit, or no usable kernel.
pub fn rope_and_cache<'a>(
    positions: impl Into<View<'a>>,
    [q, k]: [ViewMut<'a>; 2],
    value: impl Into<View<'a>>,
    cos_sin_cache: impl Into<View<'a>>,
    is_neox: bool,
    [key_cache, value_cache]: [ViewMut<'a>; 2],
    slot_mapping: impl Into<View<'a>>,
    [k_scale, v_scale]: [f32; 2],
) -> Result<()> {
    RopeAndCache {
        positions: positions.into(),
        q,
        k,
        value: value.into(),
        cos_sin_cache: cos_sin_cache.into(),
        key_cache,
        value_cache,
        slot_mapping: slot_mapping.into(),
        is_neox,
        k_scale,
        v_scale,
    }
    .run()
}

impl RopeAndCache<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let valid = rope::check(Self::OP, self.positions, &self.q, &self.k, self.cos_sin_cache)?;
        let caches = [self.key_cache.as_view(), self.value_cache.as_view()];
        let (new, scales) = ([self.k.as_view(), self.value], [self.k_scale, self.v_scale]);
        check(Self::OP, ["k", "value"], new, caches, self.slot_mapping, scales)?;
        let none = self.q.dim(0) == 0 || self.q.dim(2) == 0 || self.q.dim(1) + self.k.dim(1) == 0;
        Ok(Valid { key: valid.key.with_weight(self.key_cache.dtype()), empty: none })
    }
}

unsafe fn reference(ctx: &Ctx, a: &RopeAndCache<'_>) -> Result<(), RunError> {
    for t in 0..a.q.dim(0) {
        // SAFETY: t is below the number of positions and slots; heads are inside q and k, the slot in the caches.
        unsafe {
            let Some(p) = rope::position(ctx, &a.positions, &a.cos_sin_cache, t) else { continue };
            rope::turn_token([&a.q, &a.k], t, &a.cos_sin_cache, p, a.is_neox);
            let Some(s) = slot(ctx, &a.slot_mapping, &a.key_cache, t) else { continue };
            store(&a.k.as_view(), t, &a.key_cache, s, a.k_scale);
            store(&a.value, t, &a.value_cache, s, a.v_scale);
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: RopeAndCache,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, CACHE),
    run: reference,
});

crate::contract!(RopeAndCache);

/// How a case cuts q, k and v from two tensors, and its scales.
pub struct Cut {
    q_heads: usize,
    k_heads: usize,
    dim: usize,
    is_neox: bool,
    scales: [f32; 2],
}

impl Contract for RopeAndCache<'static> {
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
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Cut>> {
        let of = |d| [1, 16, 512].map(|t| case(d, d, t, 32, 8, 128, 128, true));
        FLOATS.into_iter().flat_map(of).collect()
    }

    fn bind<'a>(cut: &Cut, tensors: &'a mut [Tensor]) -> Option<RopeAndCache<'a>> {
        let [positions, qk, value, cos_sin_cache, key_cache, value_cache, slots] = tensors else {
            return None;
        };
        let (q, k) = qk.view_mut().split_at(1, cut.q_heads * cut.dim)?;
        Some(RopeAndCache {
            positions: positions.view(),
            q: q.split_dim(1, cut.dim)?,
            k: k.split_dim(1, cut.dim)?,
            value: value.view().narrow(1, 0, cut.k_heads * cut.dim)?.split_dim(1, cut.dim)?,
            cos_sin_cache: cos_sin_cache.view(),
            key_cache: key_cache.view_mut(),
            value_cache: value_cache.view_mut(),
            slot_mapping: slots.view(),
            is_neox: cut.is_neox,
            k_scale: cut.scales[0],
            v_scale: cut.scales[1],
        })
    }

    fn tolerance(key: Key) -> Tolerance {
        // A sum of two products may cancel: the absolute part is their rounding, for values of order 1.
        Tolerance { abs: 1e-6, ..Tolerance::rounded(key, 1.01, 1e-6) }
    }

    fn tolerance_of(key: Key, output: usize) -> Tolerance {
        match output {
            0 => Self::tolerance(key),
            // k's last bit may differ, and then be rounded another way, at scales that make values of order 100.
            1 => {
                let cached = Key { dtype: key.weight, ..key };
                let coarser = Tolerance::rounded(cached, 1.01, 1e-6).rel.max(Self::tolerance(key).rel);
                Tolerance { abs: 2e-4, rel: 2.0 * coarser }.at_least_subnormal(cached)
            }
            _ => Tolerance::EXACT,
        }
    }

    fn cost(a: &RopeAndCache<'_>) -> Cost {
        let turned = (a.q.bytes() + a.k.bytes()) as u64;
        let cos_sin = (a.q.dim(0) * a.cos_sin_cache.dim(1) * 4) as u64;
        let stored = (2 * a.k.layout().elements() * a.key_cache.dtype().block_bytes()) as u64;
        let elements = (a.q.layout().elements() + a.k.layout().elements()) as u64;
        Cost {
            read: turned + a.value.bytes() as u64 + cos_sin,
            written: turned + stored,
            flops: 3 * elements,
        }
    }
}

pub(super) fn case(
    dtype: DType,
    cache: DType,
    tokens: usize,
    q_heads: usize,
    k_heads: usize,
    dim: usize,
    rotary: usize,
    is_neox: bool,
) -> Case<Cut> {
    let (block_size, positions): (usize, Vec<i64>) = (4, (0..tokens as i64).map(|t| t * 37 % 97).collect());
    let blocks = tokens.div_ceil(block_size) + 2;
    let slot = |t: usize| if t == 1 { -1 } else { (blocks * block_size - 1 - t) as i64 };
    let slots: Vec<i64> = (0..tokens).map(slot).collect();
    let angles = cos_sin_cache(100, rotary, 10_000.0).unwrap_or_else(|e| panic!("test data: {e}"));
    let tensors = vec![
        ints(DType::I32, &positions, &[tokens]),
        normal(1, dtype, &[tokens, (q_heads + k_heads) * dim], 1.0),
        normal(2, dtype, &[tokens, k_heads * dim + 3], 1.0),
        angles,
        unwritten(cache, &[blocks, block_size, k_heads, dim]),
        unwritten(cache, &[blocks, block_size, k_heads, dim]),
        ints(DType::I64, &slots, &[tokens]),
    ];
    let scales = if DTypeSet::EIGHT_BIT.contains(cache) { [0.02, 0.01] } else { [1.0, 1.0] };
    let style = if is_neox { "neox" } else { "interleaved" };
    let name = format!("{dtype} to {cache}, {style}, {tokens} tokens, {q_heads}+{k_heads} heads of {dim}");
    Case { name, tensors, params: Cut { q_heads, k_heads, dim, is_neox, scales } }
}
