//! `attention.prefill`: the new tokens of a batch of sequences, over the cached prefix and themselves.

use super::paged::{check, prefill_spans, reference as paged_reference};
use crate::args::Arg;
use crate::data::{Rng, ints, normal, poison, unwritten};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Attention of new tokens over the cached prefix and, causally, themselves (varlen batch, GQA and MQA).
    ///
    /// The new tokens' keys and values are in the cache already (`kvcache.reshape_and_cache`). Row i of a
    /// sequence with n new tokens is its token `seq_len - n + i`. Scores and sums in f32, rounded once. A
    /// length, offset or block outside its range gives the error `OutOfRange`. The shape fact for selection
    /// is head_dim.
    pub struct Prefill = "attention.prefill" {
        /// `[new tokens, num_heads, head_dim]`, f32, f16 or bf16; a dense last dimension.
        reads q,
        /// `[blocks, block_size, num_kv_heads, head_dim]`, f32, f16 or bf16; a dense last dimension.
        reads key_cache,
        /// Shape and type of `key_cache`.
        reads value_cache,
        /// `[batch, max_blocks]`, i32, i64 or u32.
        reads block_table,
        /// `[batch]`: tokens in the cache, the new ones included.
        reads seq_lens,
        /// `[batch + 1]`: sequence b has rows `qo_indptr[b]..qo_indptr[b + 1]` of q.
        reads qo_indptr,
        /// Shape and type of `q`.
        writes out,
        /// `[new tokens, num_heads]` f32: natural-log LSE.
        maybe_writes lse,
        /// Factor of the scores, 1 / √head_dim as a rule.
        value sm_scale: f32,
        /// Whether a token sees only itself and those before it.
        value is_causal: bool,
    }
}

/// Attention of new tokens, in a new tensor.
///
/// # Errors
/// A length, offset or block outside its range, shapes or types that do not fit, or no usable kernel.
pub fn prefill<'a>(
    q: impl Into<View<'a>>,
    key_cache: impl Into<View<'a>>,
    value_cache: impl Into<View<'a>>,
    block_table: impl Into<View<'a>>,
    seq_lens: impl Into<View<'a>>,
    qo_indptr: impl Into<View<'a>>,
    sm_scale: f32,
    is_causal: bool,
) -> Result<Tensor> {
    let q = q.into();
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(q.dtype(), q.shape(), q.device())? };
    let (key_cache, value_cache): (View<'_>, View<'_>) = (key_cache.into(), value_cache.into());
    let (table, lens, offsets): (View<'_>, View<'_>, View<'_>) =
        (block_table.into(), seq_lens.into(), qo_indptr.into());
    prefill_into(q, key_cache, value_cache, table, lens, offsets, sm_scale, is_causal, &mut out)?;
    Ok(out)
}

/// Attention of new tokens, into `out`.
///
/// # Errors
/// As [`prefill`].
pub fn prefill_into<'a>(
    q: impl Into<View<'a>>,
    key_cache: impl Into<View<'a>>,
    value_cache: impl Into<View<'a>>,
    block_table: impl Into<View<'a>>,
    seq_lens: impl Into<View<'a>>,
    qo_indptr: impl Into<View<'a>>,
    sm_scale: f32,
    is_causal: bool,
    out: impl Into<ViewMut<'a>>,
) -> Result<()> {
    Prefill {
        q: q.into(),
        key_cache: key_cache.into(),
        value_cache: value_cache.into(),
        block_table: block_table.into(),
        seq_lens: seq_lens.into(),
        qo_indptr: qo_indptr.into(),
        out: out.into(),
        lse: None,
        sm_scale,
        is_causal,
    }
    .run()
}

impl Prefill<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let (caches, tables) = ([self.key_cache, self.value_cache], [self.block_table, self.seq_lens]);
        let batch = self.seq_lens.layout().elements();
        let lse = self.lse.as_ref().map(|l| l.as_view());
        check(Self::OP, self.q, caches, tables, self.out.as_view(), lse, batch)?;
        Arg::new(Self::OP, "qo_indptr", self.qo_indptr).indices(batch + 1)?;
        let key = Key::of(self.q.dtype()).with_weight(self.key_cache.dtype()).with_fact(self.q.dim(2));
        Ok(Valid { key, empty: self.q.layout().elements() == 0 })
    }
}

unsafe fn reference(ctx: &Ctx, a: &Prefill<'_>) -> Result<(), RunError> {
    let (block_size, rows) = (a.key_cache.dim(1), a.q.dim(0));
    // SAFETY: checked arguments on the host.
    unsafe {
        let spans = prefill_spans(ctx, a.seq_lens, a.block_table, block_size, a.qo_indptr, rows, a.is_causal);
        paged_reference(ctx, &a.tensors(), &spans);
    }
    Ok(())
}

kernel!(unsafe {
    op: Prefill,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(Prefill);

impl Contract for Prefill<'static> {
    /// Scale, and whether causal.
    type Params = (f32, bool);
    const OUTPUTS: &'static [usize] = &[6, 7];

    fn cases() -> Vec<Case<Self::Params>> {
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for cache in FLOATS {
                // (new, total) of each sequence: no prefix, a prefix, one token, nothing new, more new than kept.
                cases.push(case(dtype, cache, &[(5, 5), (3, 20), (1, 17), (0, 4)], 6, 2, 64, 16, true));
                cases.push(case(dtype, cache, &[(9, 70)], 3, 3, 33, 32, true));
                cases.push(case(dtype, cache, &[(40, 40), (2, 1)], 8, 1, 128, 16, true));
                cases.push(case(dtype, cache, &[(4, 30), (2, 0)], 4, 2, 64, 16, false));
                // The last token's value is NaN: the tokens before it do not see it.
                let mut with_nan = case(dtype, cache, &[(7, 7)], 3, 1, 24, 8, true);
                poison(&mut with_nan.tensors[2], 24 * 6 + 3);
                poison(&mut with_nan.tensors[2], 24 * (8 + 6) + 3);
                with_nan.name.push_str(", the last value NaN");
                cases.push(with_nan);
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Self::Params>> {
        FLOATS.map(|d| case(d, d, &[(512, 512)], 32, 8, 128, 64, true)).into()
    }

    fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<Prefill<'a>> {
        let [q, keys, values, table, lens, offsets, out, lse] = tensors else { return None };
        Some(Prefill {
            q: q.view(),
            key_cache: keys.view(),
            value_cache: values.view(),
            block_table: table.view(),
            seq_lens: lens.view(),
            qo_indptr: offsets.view(),
            out: out.view_mut(),
            lse: Some(lse.view_mut()),
            sm_scale: params.0,
            is_causal: params.1,
        })
    }

    fn tolerance(key: Key) -> Tolerance {
        Tolerance { abs: 2e-5, ..Tolerance::rounded(key, 1.01, 2e-5) }
    }

    fn cost(a: &Prefill<'_>) -> Cost {
        // SAFETY: contract cases live on the host.
        let entry = |v: &View<'_>, i| unsafe { crate::element::index(v, i) } as u64;
        let (mut tokens, mut pairs) = (0, 0);
        for s in 0..a.seq_lens.dim(0) {
            let (len, new) = (entry(&a.seq_lens, s), entry(&a.qo_indptr, s + 1) - entry(&a.qo_indptr, s));
            tokens += len;
            pairs += if a.is_causal { new * len - new * new.saturating_sub(1) / 2 } else { new * len };
        }
        let dim = a.q.dim(2) as u64;
        let row = a.key_cache.dim(2) as u64 * dim * a.key_cache.dtype().block_bytes() as u64;
        let flops = 4 * pairs * a.q.dim(1) as u64 * dim;
        Cost { read: 2 * tokens * row + a.q.bytes() as u64, written: a.out.bytes() as u64, flops }
    }
}

/// Blocks of a cache handed out in a shuffled order, and how many there are.
pub(super) fn block_table(lens: &[i64], block_size: usize) -> (Tensor, usize) {
    let of = |len: &i64| (*len as usize).div_ceil(block_size);
    let (width, used) = (lens.iter().map(of).max().unwrap_or(0).max(1), lens.iter().map(of).sum::<usize>());
    let mut free: Vec<i64> = (0..used as i64 + 1).collect();
    let mut rng = Rng::new(9);
    (1..free.len()).for_each(|i| free.swap(i, rng.below(i + 1)));
    let mut table = vec![0; lens.len() * width];
    for (row, len) in table.chunks_mut(width).zip(lens) {
        row.iter_mut().take(of(len)).for_each(|entry| *entry = free.pop().unwrap_or(0));
    }
    (ints(DType::I32, &table, &[lens.len(), width]), used + 1)
}

fn case(
    dtype: DType,
    cache: DType,
    sequences: &[(i64, i64)],
    heads: usize,
    kv_heads: usize,
    dim: usize,
    block_size: usize,
    is_causal: bool,
) -> Case<(f32, bool)> {
    let lens: Vec<i64> = sequences.iter().map(|s| s.1).collect();
    let mut offsets = vec![0];
    sequences.iter().for_each(|s| offsets.push(offsets[offsets.len() - 1] + s.0));
    let rows = offsets[offsets.len() - 1] as usize;
    let (table, blocks) = block_table(&lens, block_size);
    let tensors = vec![
        normal(1, dtype, &[rows, heads, dim], 1.0),
        normal(2, cache, &[blocks, block_size, kv_heads, dim], 1.0),
        normal(3, cache, &[blocks, block_size, kv_heads, dim], 1.0),
        table,
        ints(DType::I64, &lens, &[lens.len()]),
        ints(DType::I32, &offsets, &[offsets.len()]),
        unwritten(dtype, &[rows, heads, dim]),
        unwritten(DType::F32, &[rows, heads]),
    ];
    let causal = if is_causal { "causal" } else { "full" };
    let name = format!(
        "{dtype}, {cache} cache, (new, all) {sequences:?}, {heads}/{kv_heads} heads of {dim}, {causal}"
    );
    Case { name, tensors, params: (1.0 / (dim as f32).sqrt(), is_causal) }
}
