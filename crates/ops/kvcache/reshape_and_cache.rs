//! `kvcache.reshape_and_cache`: new keys and values into their slots of a paged cache.

use crate::args::Arg;
use crate::data::{ints, normal, unwritten};
use crate::element::{at, below, index, put};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// New keys and values into a paged cache: slot s is row `s % block_size` of block `s / block_size`.
    ///
    /// Values are rounded once where the cache's type is another. A slot below 0 is skipped (padding); one
    /// beyond the cache is skipped and gives the error `OutOfRange`. Of two tokens with one slot the later one
    /// stays.
    pub struct ReshapeAndCache = "kvcache.reshape_and_cache" {
        /// `[tokens, num_kv_heads, head_dim]`, f32, f16 or bf16; a dense last dimension.
        reads key,
        /// Shape and type of `key`.
        reads value,
        /// `[blocks, block_size, num_kv_heads, head_dim]`, f32, f16 or bf16; a dense last dimension.
        writes key_cache,
        /// Shape and type of `key_cache`.
        writes value_cache,
        /// `[tokens]`, i32, i64 or u32.
        reads slot_mapping,
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
    ReshapeAndCache {
        key: key.into(),
        value: value.into(),
        key_cache: key_cache.into(),
        value_cache: value_cache.into(),
        slot_mapping: slot_mapping.into(),
    }
    .run()
}

impl ReshapeAndCache<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let arg = |name, view| Arg::new(Self::OP, name, view);
        let key = arg("key", self.key).dtype(DTypeSet::FLOAT)?.rank(3)?.dense_last()?;
        arg("value", self.value).like(key)?.shape(self.key.shape())?.dense_last()?;
        let cache = arg("key_cache", self.key_cache.as_view())
            .dtype(DTypeSet::FLOAT)?
            .rank(4)?
            .dense_last()?
            .output()?;
        let (tokens, heads, dim) = (self.key.dim(0), self.key.dim(1), self.key.dim(2));
        cache.shape(&[self.key_cache.dim(0), self.key_cache.dim(1), heads, dim])?;
        let values =
            arg("value_cache", self.value_cache.as_view()).like(cache)?.shape(self.key_cache.shape())?;
        values.dense_last()?.output()?;
        arg("slot_mapping", self.slot_mapping).indices(tokens)?;
        let key = Key::of(self.key.dtype()).with_weight(self.key_cache.dtype()).with_fact(dim);
        Ok(Valid { key, empty: tokens == 0 || heads * dim == 0 })
    }
}

unsafe fn reference(ctx: &Ctx, a: &ReshapeAndCache<'_>) -> Result<(), RunError> {
    let (block_size, slots) = (a.key_cache.dim(1), a.key_cache.dim(0) * a.key_cache.dim(1));
    for t in 0..a.key.dim(0) {
        // SAFETY: t is below the number of slots given.
        let slot = unsafe { index(&a.slot_mapping, t) };
        let Some(s) = below(slot, slots) else {
            if slot >= 0 {
                ctx.out_of_range(slot, slots);
            }
            continue;
        };
        for (from, to) in [(&a.key, &a.key_cache), (&a.value, &a.value_cache)] {
            for h in 0..from.dim(1) {
                let source = t * from.stride(0) + h * from.stride(1);
                let target = s / block_size * to.stride(0) + s % block_size * to.stride(1) + h * to.stride(2);
                for i in 0..from.dim(2) {
                    // SAFETY: every index is inside its dimension.
                    unsafe { put(to, target + i, at(from, source + i)) };
                }
            }
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: ReshapeAndCache,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(ReshapeAndCache);

impl Contract for ReshapeAndCache<'static> {
    /// Columns of the fused tensor that are keys, before the values; and head_dim.
    type Params = (usize, usize);
    const OUTPUTS: &'static [usize] = &[1, 2];

    fn cases() -> Vec<Case<Self::Params>> {
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for cache in FLOATS {
                for (tokens, heads, dim) in [(5, 2, 64), (3, 3, 17), (1, 1, 128), (0, 2, 64)] {
                    cases.push(case(dtype, cache, tokens, heads, dim, 4));
                }
                let mut same_slot = case(dtype, cache, 300, 2, 64, 4);
                same_slot.tensors[3] = ints(DType::I64, &[9; 300], &[300]);
                same_slot.name.push_str(", all in one slot");
                cases.push(same_slot);
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Self::Params>> {
        FLOATS.into_iter().flat_map(|d| [1, 16, 512].map(|t| case(d, d, t, 8, 128, 64))).collect()
    }

    fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<ReshapeAndCache<'a>> {
        let [kv, key_cache, value_cache, slots] = tensors else { return None };
        let (cols, dim) = *params;
        Some(ReshapeAndCache {
            key: kv.view().narrow(1, 0, cols)?.split_dim(1, dim)?,
            value: kv.view().narrow(1, cols, cols)?.split_dim(1, dim)?,
            key_cache: key_cache.view_mut(),
            value_cache: value_cache.view_mut(),
            slot_mapping: slots.view(),
        })
    }

    fn tolerance(_: Key) -> Tolerance {
        // A copy, or one rounding to the cache's type from a type that f32 holds exactly.
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
) -> Case<(usize, usize)> {
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
        params: (heads * dim, dim),
    }
}
