//! `kvcache.reshape_and_cache`: new keys and values into their slots of a paged cache (Kwon et al. 2023, vLLM):
//! cache[slot] = round(value / scale).

use super::paged::{CACHE, check, slot, store};
use crate::data::{ints, normal, poison, unwritten};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// New keys and values into a paged cache: slot s is row `s % block_size` of block `s / block_size`.
    ///
    /// Stored is the value divided by its scale, in f32, rounded once to the cache's type: 8-bit types to even and
    /// saturating; NaN stays NaN, but in i8 becomes 0. A slot below 0 is skipped (padding); one
    /// beyond the cache is skipped and gives the error `OutOfRange`. Of two tokens with one slot the later one
    /// stays.
    pub struct ReshapeAndCache = "kvcache.reshape_and_cache" {
        /// `[tokens, num_kv_heads, head_dim]`, f32, f16 or bf16; a dense last dimension.
        reads key,
        /// Shape and type of `key`.
        reads value,
        /// `[blocks, block_size, num_kv_heads, head_dim]`, f32, f16, bf16, i8 or f8_e4m3; a dense last dimension.
        writes key_cache,
        /// Shape and type of `key_cache`.
        writes value_cache,
        /// `[tokens]`, i32, i64 or u32.
        reads slot_mapping,
        /// What keys are divided by; 1 for none.
        value k_scale: f32,
        /// What values are divided by; 1 for none.
        value v_scale: f32,
    }
}

/// Stores `key` and `value` in their slots.
///
/// # Errors
/// A slot beyond the cache, shapes or types that do not fit, or no usable kernel.
pub fn reshape_and_cache<'a>(
    key: impl Into<View<'a>>,
    value: impl Into<View<'a>>,
    key_cache: impl Into<ViewMut<'a>>,
    value_cache: impl Into<ViewMut<'a>>,
    slot_mapping: impl Into<View<'a>>,
) -> Result<()> {
    reshape_and_cache_scaled(key, value, key_cache, value_cache, slot_mapping, [1.0, 1.0])
}

/// Stores `key` and `value`, divided by their scales, in their slots.
///
/// # Errors
/// As [`reshape_and_cache`], or a scale that is not above 0.
pub fn reshape_and_cache_scaled<'a>(
    key: impl Into<View<'a>>,
    value: impl Into<View<'a>>,
    key_cache: impl Into<ViewMut<'a>>,
    value_cache: impl Into<ViewMut<'a>>,
    slot_mapping: impl Into<View<'a>>,
    [k_scale, v_scale]: [f32; 2],
) -> Result<()> {
    ReshapeAndCache {
        key: key.into(),
        value: value.into(),
        key_cache: key_cache.into(),
        value_cache: value_cache.into(),
        slot_mapping: slot_mapping.into(),
        k_scale,
        v_scale,
    }
    .run()
}

impl ReshapeAndCache<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let caches = [self.key_cache.as_view(), self.value_cache.as_view()];
        let scales = [self.k_scale, self.v_scale];
        check(Self::OP, ["key", "value"], [self.key, self.value], caches, self.slot_mapping, scales)?;
        let (tokens, heads, dim) = (self.key.dim(0), self.key.dim(1), self.key.dim(2));
        let key = Key::of(self.key.dtype()).with_weight(self.key_cache.dtype()).with_fact(dim);
        Ok(Valid { key, empty: tokens == 0 || heads * dim == 0 })
    }
}

unsafe fn reference(ctx: &Ctx, a: &ReshapeAndCache<'_>) -> Result<(), RunError> {
    for t in 0..a.key.dim(0) {
        // SAFETY: t is below the number of slots given; the slot found is inside the caches.
        unsafe {
            let Some(s) = slot(ctx, &a.slot_mapping, &a.key_cache, t) else { continue };
            store(&a.key, t, &a.key_cache, s, a.k_scale);
            store(&a.value, t, &a.value_cache, s, a.v_scale);
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: ReshapeAndCache,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, CACHE),
    run: reference,
});

crate::contract!(ReshapeAndCache);

impl Contract for ReshapeAndCache<'static> {
    /// Columns of the fused tensor that are keys, before the values; head_dim; and both scales.
    type Params = (usize, usize, [f32; 2]);
    const OUTPUTS: &'static [usize] = &[1, 2];

    fn cases() -> Vec<Case<Self::Params>> {
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for cache in CACHE.iter() {
                for (tokens, heads, dim) in [(5, 2, 64), (3, 3, 17), (1, 1, 128), (0, 2, 64)] {
                    cases.push(case(dtype, cache, tokens, heads, dim, 4));
                }
                let mut same_slot = case(dtype, cache, 300, 2, 64, 4);
                same_slot.tensors[3] = ints(DType::I64, &[9; 300], &[300]);
                same_slot.name.push_str(", all in one slot");
                cases.push(same_slot);
                let mut scaled = case(dtype, cache, 6, 2, 40, 4);
                scaled.params.2 = [0.013, 0.7];
                scaled.name.push_str(", scaled");
                // Beyond what 8 bits hold, and NaN.
                let values: Vec<f32> = scaled.tensors[0].to_f32_vec().unwrap_or_default();
                let values: Vec<f32> = values.iter().map(|x| x * x * x * 300.0).collect();
                scaled.tensors[0] =
                    Tensor::from_f32(&values, dtype, &[6, 160]).unwrap_or_else(|e| panic!("test data: {e}"));
                poison(&mut scaled.tensors[0], 3);
                cases.push(scaled);
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Self::Params>> {
        let bf16 = DTypeSet::EIGHT_BIT.iter().map(|cache| (DType::BF16, cache));
        let types = FLOATS.into_iter().map(|d| (d, d)).chain(bf16);
        types.flat_map(|(d, c)| [1, 16, 512].map(|t| case(d, c, t, 8, 128, 64))).collect()
    }

    fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<ReshapeAndCache<'a>> {
        let [kv, key_cache, value_cache, slots] = tensors else { return None };
        let (cols, dim, [k_scale, v_scale]) = *params;
        Some(ReshapeAndCache {
            key: kv.view().narrow(1, 0, cols)?.split_dim(1, dim)?,
            value: kv.view().narrow(1, cols, cols)?.split_dim(1, dim)?,
            key_cache: key_cache.view_mut(),
            value_cache: value_cache.view_mut(),
            slot_mapping: slots.view(),
            k_scale,
            v_scale,
        })
    }

    fn tolerance(_: Key) -> Tolerance {
        // A copy, or one rounding to the cache's type from the f32 that the contract names.
        Tolerance::EXACT
    }

    fn cost(a: &ReshapeAndCache<'_>) -> Cost {
        let elements = 2 * a.key.layout().elements();
        let written = (elements * a.key_cache.dtype().block_bytes()) as u64;
        Cost { read: (2 * a.key.bytes() + a.slot_mapping.bytes()) as u64, written, flops: 0 }
    }
}

fn case(
    dtype: DType,
    cache: DType,
    tokens: usize,
    heads: usize,
    dim: usize,
    block_size: usize,
) -> Case<(usize, usize, [f32; 2])> {
    let blocks = tokens.div_ceil(block_size) + 2;
    // Backwards from the last slot, the second one skipped.
    let slot = |t: usize| if t == 1 { -1 } else { (blocks * block_size - 1 - t) as i64 };
    let slots: Vec<i64> = (0..tokens).map(slot).collect();
    let tensors = vec![
        normal(1, dtype, &[tokens, 2 * heads * dim], 1.0),
        unwritten(cache, &[blocks, block_size, heads, dim]),
        unwritten(cache, &[blocks, block_size, heads, dim]),
        ints(DType::I64, &slots, &[tokens]),
    ];
    Case {
        name: format!("{dtype} to {cache}, {tokens} tokens, {heads} heads of {dim}"),
        tensors,
        params: (heads * dim, dim, [1.0, 1.0]),
    }
}
