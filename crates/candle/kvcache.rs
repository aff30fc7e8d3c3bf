//! `kvcache.*` over candle tensors. A cache is changed in place, as its size asks for; an i8 cache is `U8`.

use crate::call::update;
use crate::dtype::signed_mut;
use candle_core::{Result, Tensor};
use kernels_core::{View, ViewMut};
use kernels_ops::kvcache::{ReshapeAndCache, RopeAndCache};

/// `kvcache.reshape_and_cache`: `key` and `value`, divided by their scales, into the slots of both caches:
/// [`ReshapeAndCache`].
///
/// # Errors
/// A slot beyond the cache, shapes, types or strides that do not fit, a cache that shares its memory, a tracked
/// tensor, or no usable kernel.
pub fn reshape_and_cache_inplace(
    key: &Tensor,
    value: &Tensor,
    key_cache: &Tensor,
    value_cache: &Tensor,
    slot_mapping: &Tensor,
    [k_scale, v_scale]: [f32; 2],
) -> Result<()> {
    let reads = [("key", key), ("value", value), ("slot_mapping", slot_mapping)];
    let writes = [("key_cache", key_cache), ("value_cache", value_cache)];
    update(ReshapeAndCache::OP, reads, writes, |r, w| store(r, w, [k_scale, v_scale]))
}

/// `kvcache.reshape_and_cache` into copies of both caches, which it gives: [`ReshapeAndCache`].
///
/// # Errors
/// As [`reshape_and_cache_inplace`].
pub fn reshape_and_cache(
    key: &Tensor,
    value: &Tensor,
    key_cache: &Tensor,
    value_cache: &Tensor,
    slot_mapping: &Tensor,
    scales: [f32; 2],
) -> Result<(Tensor, Tensor)> {
    use crate::call::{Out, compute};
    let reads = [("key", key), ("value", value), ("slot_mapping", slot_mapping)];
    let outs = [Out::Copy(("key_cache", key_cache)), Out::Copy(("value_cache", value_cache))];
    let [keys, values] = compute(ReshapeAndCache::OP, reads, outs, |r, w| store(r, w, scales))?;
    Ok((keys, values))
}

fn store(
    [key, value, slot_mapping]: [View<'_>; 3],
    [key_cache, value_cache]: [ViewMut<'_>; 2],
    [k_scale, v_scale]: [f32; 2],
) -> kernels_core::Result<()> {
    let (key_cache, value_cache) = (signed_mut(key_cache), signed_mut(value_cache));
    ReshapeAndCache { key, value, key_cache, value_cache, slot_mapping, k_scale, v_scale }.run()
}

/// `kvcache.rope_and_cache`: q and k turned in place, k and `value` into the slots of both caches:
/// [`RopeAndCache`].
///
/// # Errors
/// A position or slot outside its cache, shapes, types or strides that do not fit, tensors that share their
/// memory, a tracked tensor, or no usable kernel.
pub fn rope_and_cache_inplace(
    positions: &Tensor,
    [q, k]: [&Tensor; 2],
    value: &Tensor,
    cos_sin_cache: &Tensor,
    is_neox: bool,
    [key_cache, value_cache]: [&Tensor; 2],
    slot_mapping: &Tensor,
    [k_scale, v_scale]: [f32; 2],
) -> Result<()> {
    let reads = [
        ("positions", positions),
        ("value", value),
        ("cos_sin_cache", cos_sin_cache),
        ("slot_mapping", slot_mapping),
    ];
    let writes = [("q", q), ("k", k), ("key_cache", key_cache), ("value_cache", value_cache)];
    let run = |[positions, value, cos_sin_cache, slot_mapping]: [View<'_>; 4],
               [q, k, key_cache, value_cache]: [ViewMut<'_>; 4]| {
        let (key_cache, value_cache) = (signed_mut(key_cache), signed_mut(value_cache));
        RopeAndCache {
            positions,
            q,
            k,
            value,
            cos_sin_cache,
            key_cache,
            value_cache,
            slot_mapping,
            is_neox,
            k_scale,
            v_scale,
        }
        .run()
    };
    update(RopeAndCache::OP, reads, writes, run)
}

/// `kvcache.rope_and_cache` in copies: q and k turned, and both caches: [`RopeAndCache`].
///
/// # Errors
/// As [`rope_and_cache_inplace`].
pub fn rope_and_cache(
    positions: &Tensor,
    [q, k]: [&Tensor; 2],
    value: &Tensor,
    cos_sin_cache: &Tensor,
    is_neox: bool,
    [key_cache, value_cache]: [&Tensor; 2],
    slot_mapping: &Tensor,
    scales: [f32; 2],
) -> Result<[Tensor; 4]> {
    let [q, k, keys, values] = [q.copy()?, k.copy()?, key_cache.copy()?, value_cache.copy()?];
    let caches = [&keys, &values];
    rope_and_cache_inplace(positions, [&q, &k], value, cos_sin_cache, is_neox, caches, slot_mapping, scales)?;
    Ok([q, k, keys, values])
}
