//! `attention.decode`: one query token for each sequence, over its paged keys and values.

use super::paged::{check, decode_spans, reference as paged_reference};
use crate::data::{ints, normal, poison, unwritten};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Attention of one new token a sequence over its paged cache (GQA and MQA).
    ///
    /// Scores and sums in f32, rounded once. A length or block outside the tables is skipped and gives the
    /// error `OutOfRange`. The shape fact for selection is head_dim.
    pub struct Decode = "attention.decode" {
        /// `[batch, num_heads, head_dim]`, f32, f16 or bf16; a dense last dimension.
        reads q,
        /// `[blocks, block_size, num_kv_heads, head_dim]`, f32, f16 or bf16; a dense last dimension.
        reads key_cache,
        /// Shape and type of `key_cache`.
        reads value_cache,
        /// `[batch, max_blocks]`, i32, i64 or u32.
        reads block_table,
        /// `[batch]`: tokens in the cache, the new one included.
        reads seq_lens,
        /// Shape and type of `q`.
        writes out,
        /// `[batch, num_heads]` f32: natural-log LSE.
        maybe_writes lse,
        /// Factor of the scores, 1 / √head_dim as a rule.
        value sm_scale: f32,
    }
}

/// Attention of one token a sequence, in a new tensor.
///
/// # Errors
/// A length or block outside the tables, shapes or types that do not fit, or no usable kernel.
pub fn decode<'a>(
    q: impl Into<View<'a>>,
    key_cache: impl Into<View<'a>>,
    value_cache: impl Into<View<'a>>,
    block_table: impl Into<View<'a>>,
    seq_lens: impl Into<View<'a>>,
    sm_scale: f32,
) -> Result<Tensor> {
    let q = q.into();
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(q.dtype(), q.shape(), q.device())? };
    let (key_cache, value_cache): (View<'_>, View<'_>) = (key_cache.into(), value_cache.into());
    let (block_table, seq_lens): (View<'_>, View<'_>) = (block_table.into(), seq_lens.into());
    decode_into(q, key_cache, value_cache, block_table, seq_lens, sm_scale, &mut out)?;
    Ok(out)
}

/// Attention of one token a sequence, into `out`.
///
/// # Errors
/// As [`decode`].
pub fn decode_into<'a>(
    q: impl Into<View<'a>>,
    key_cache: impl Into<View<'a>>,
    value_cache: impl Into<View<'a>>,
    block_table: impl Into<View<'a>>,
    seq_lens: impl Into<View<'a>>,
    sm_scale: f32,
    out: impl Into<ViewMut<'a>>,
) -> Result<()> {
    Decode {
        q: q.into(),
        key_cache: key_cache.into(),
        value_cache: value_cache.into(),
        block_table: block_table.into(),
        seq_lens: seq_lens.into(),
        out: out.into(),
        lse: None,
        sm_scale,
    }
    .run()
}

impl Decode<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let (caches, tables) = ([self.key_cache, self.value_cache], [self.block_table, self.seq_lens]);
        let batch = self.q.shape().first().copied().unwrap_or(0);
        let lse = self.lse.as_ref().map(|l| l.as_view());
        check(Self::OP, self.q, caches, tables, self.out.as_view(), lse, batch)?;
        let key = Key::of(self.q.dtype()).with_weight(self.key_cache.dtype()).with_fact(self.q.dim(2));
        Ok(Valid { key, empty: self.q.layout().elements() == 0 })
    }
}

unsafe fn reference(ctx: &Ctx, a: &Decode<'_>) -> Result<(), RunError> {
    // SAFETY: checked arguments on the host.
    unsafe {
        paged_reference(ctx, &a.tensors(), &decode_spans(a.seq_lens, a.block_table, a.key_cache.dim(1)))
    };
    Ok(())
}

kernel!(unsafe {
    op: Decode,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(Decode);

impl Contract for Decode<'static> {
    type Params = f32;
    const OUTPUTS: &'static [usize] = &[5, 6];

    fn cases() -> Vec<Case<f32>> {
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for cache in FLOATS {
                // GQA, odd dims, MQA, lengths at and around block ends, an empty sequence.
                cases.push(case(dtype, cache, &[1, 16, 17, 0], 6, 2, 64, 16, 1.0));
                cases.push(case(dtype, cache, &[70], 3, 3, 33, 32, 1.0));
                cases.push(case(dtype, cache, &[300, 5], 8, 1, 128, 64, 4.0));
                cases.push(case(dtype, cache, &[], 2, 1, 64, 16, 1.0));
                // A NaN query head, a NaN key and a NaN value: each makes what reads it NaN, and nothing else.
                for tensor in 0..3 {
                    let mut with_nan = case(dtype, cache, &[20, 9], 4, 2, 24, 8, 1.0);
                    poison(&mut with_nan.tensors[tensor], 30);
                    with_nan.name = format!("{}, a NaN in tensor {tensor}", with_nan.name);
                    cases.push(with_nan);
                }
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<f32>> {
        let sizes = [(1, 1024), (1, 4096), (8, 1024)];
        let of = |d| sizes.map(|(batch, len)| case(d, d, &vec![len; batch], 32, 8, 128, 64, 1.0));
        FLOATS.into_iter().flat_map(of).collect()
    }

    fn bind<'a>(sm_scale: &f32, tensors: &'a mut [Tensor]) -> Option<Decode<'a>> {
        let [q, keys, values, table, lens, out, lse] = tensors else { return None };
        Some(Decode {
            q: q.view(),
            key_cache: keys.view(),
            value_cache: values.view(),
            block_table: table.view(),
            seq_lens: lens.view(),
            out: out.view_mut(),
            lse: Some(lse.view_mut()),
            sm_scale: *sm_scale,
        })
    }

    fn tolerance(key: Key) -> Tolerance {
        // Weighted means of values of order 1; scores up to some tens lose that factor of f32's precision.
        Tolerance { abs: 2e-5, ..Tolerance::rounded(key, 1.01, 2e-5) }
    }

    fn cost(a: &Decode<'_>) -> Cost {
        // SAFETY: contract cases live on the host.
        let tokens: i64 =
            (0..a.seq_lens.dim(0)).map(|i| unsafe { crate::element::index(&a.seq_lens, i) }).sum();
        let (tokens, dim) = (tokens as u64, a.q.dim(2) as u64);
        let row = a.key_cache.dim(2) as u64 * dim * a.key_cache.dtype().block_bytes() as u64;
        let flops = 4 * tokens * a.q.dim(1) as u64 * dim;
        Cost { read: 2 * tokens * row + a.q.bytes() as u64, written: a.out.bytes() as u64, flops }
    }
}

fn case(
    dtype: DType,
    cache: DType,
    lens: &[i64],
    heads: usize,
    kv_heads: usize,
    dim: usize,
    block_size: usize,
    sharpness: f32,
) -> Case<f32> {
    let batch = lens.len();
    let (table, blocks) = super::prefill::block_table(lens, block_size);
    let tensors = vec![
        normal(1, dtype, &[batch, heads, dim], 1.0),
        normal(2, cache, &[blocks, block_size, kv_heads, dim], 1.0),
        normal(3, cache, &[blocks, block_size, kv_heads, dim], 1.0),
        table,
        ints(DType::I32, lens, &[batch]),
        unwritten(dtype, &[batch, heads, dim]),
        unwritten(DType::F32, &[batch, heads]),
    ];
    let shown = if batch > 4 { format!("{batch} of {}", lens[0]) } else { format!("{lens:?}") };
    let name = format!(
        "{dtype}, {cache} cache, lengths {shown}, {heads}/{kv_heads} heads of {dim}, blocks of {block_size}"
    );
    Case { name, tensors, params: sharpness / (dim as f32).sqrt() }
}
