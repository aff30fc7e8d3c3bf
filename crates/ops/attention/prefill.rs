//! `attention.prefill`: the new tokens of a batch of sequences, over the cached prefix and themselves. Scores, sums
//! and LSE are those of [`decode`](mod@super::decode), row by row.

use super::decode::{Shape, stored};
use super::options::{Options, check_mask};
use super::paged::{check, prefill_spans, reference as paged_reference};
use crate::args::Arg;
use crate::data::{Rng, ints, normal, poison, unwritten};
use crate::kvcache::CACHE;
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
        /// `[blocks, block_size, num_kv_heads, head_dim]`, f32, f16, bf16, i8 or f8_e4m3; a dense last dimension.
        reads key_cache,
        /// Shape and type of `key_cache`.
        reads value_cache,
        /// `[batch, max_blocks]`, i32, i64 or u32.
        reads block_table,
        /// `[batch]`: tokens in the cache, the new ones included.
        reads seq_lens,
        /// `[batch + 1]`: sequence b has rows `qo_indptr[b]..qo_indptr[b + 1]` of q.
        reads qo_indptr,
        /// `[num_heads]` f32: a score of each head that takes its share of the softmax and has no value.
        maybe sinks,
        /// `[any]` u8: for sequence b, `[rows, seq_len]` bytes from `mask_indptr[b]` on; 0 hides.
        maybe mask,
        /// `[batch]`, i32, i64 or u32.
        maybe mask_indptr,
        /// Shape and type of `q`.
        writes out,
        /// `[new tokens, num_heads]` f32: natural-log LSE.
        maybe_writes lse,
        /// Factor of the scores, 1 / √head_dim as a rule.
        value sm_scale: f32,
        /// Scores become cap · tanh(score / cap); 0 for none.
        value logit_cap: f32,
        /// How many tokens a row sees at most, its own included; 0 for all.
        value window: usize,
        /// What stored keys are multiplied by; 1 for none.
        value k_scale: f32,
        /// What stored values are multiplied by; 1 for none.
        value v_scale: f32,
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
    options: Options<'a>,
    is_causal: bool,
) -> Result<Tensor> {
    let q = q.into();
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(q.dtype(), q.shape(), q.device())? };
    let (key_cache, value_cache): (View<'_>, View<'_>) = (key_cache.into(), value_cache.into());
    let (table, lens, offsets): (View<'_>, View<'_>, View<'_>) =
        (block_table.into(), seq_lens.into(), qo_indptr.into());
    prefill_into(q, key_cache, value_cache, table, lens, offsets, options, is_causal, &mut out)?;
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
    options: Options<'a>,
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
        sinks: options.sinks,
        mask: None,
        mask_indptr: None,
        lse: None,
        sm_scale: options.sm_scale,
        logit_cap: options.logit_cap,
        window: options.window,
        k_scale: options.k_scale,
        v_scale: options.v_scale,
        is_causal,
    }
    .run()
}

impl<'a> Prefill<'a> {
    fn options(&self) -> Options<'a> {
        Options {
            sm_scale: self.sm_scale,
            logit_cap: self.logit_cap,
            window: self.window,
            sinks: self.sinks,
            k_scale: self.k_scale,
            v_scale: self.v_scale,
        }
    }

    fn validate(&self) -> Result<Valid, CallError> {
        let (caches, tables) = ([self.key_cache, self.value_cache], [self.block_table, self.seq_lens]);
        let batch = self.seq_lens.layout().elements();
        let lse = self.lse.as_ref().map(|l| l.as_view());
        check(Self::OP, self.q, caches, tables, self.out.as_view(), lse, batch, &self.options())?;
        Arg::new(Self::OP, "qo_indptr", self.qo_indptr).indices(batch + 1)?;
        check_mask(Self::OP, self.mask, self.mask_indptr, batch)?;
        let key = Key::of(self.q.dtype()).with_weight(self.key_cache.dtype()).with_fact(self.q.dim(2));
        Ok(Valid { key, empty: self.q.dim(0) * self.q.dim(1) == 0 })
    }
}

unsafe fn reference(ctx: &Ctx, a: &Prefill<'_>) -> Result<(), RunError> {
    // SAFETY: checked arguments on the host.
    unsafe {
        let spans = prefill_spans(ctx, &a.tensors(), a.seq_lens, a.qo_indptr, a.is_causal);
        paged_reference(ctx, &a.tensors(), &spans);
    }
    Ok(())
}

kernel!(unsafe {
    op: Prefill,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, CACHE),
    run: reference,
});

crate::contract!(Prefill);

impl Contract for Prefill<'static> {
    /// The values, whether causal, and whether there is a mask.
    type Params = (Shape, bool, bool);
    const OUTPUTS: &'static [usize] = &[9, 10];

    fn cases() -> Vec<Case<Self::Params>> {
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for cache in CACHE.iter() {
                // (new, total) of each sequence: no prefix, a prefix, one token, nothing new, more new than kept.
                cases.push(case(dtype, cache, &[(5, 5), (3, 20), (1, 17), (0, 4)], 6, 2, 64, 16, true));
                cases.push(case(dtype, cache, &[(9, 70)], 3, 3, 33, 32, true));
                cases.push(case(dtype, cache, &[(40, 40), (2, 1)], 8, 1, 128, 16, true));
                cases.push(case(dtype, cache, &[(4, 30), (2, 0)], 4, 2, 64, 16, false));
                cases.push(case(dtype, cache, &[(20, 100)], 4, 1, 256, 16, true));
                if dtype == cache {
                    cases.push(case(dtype, cache, &[(5, 12)], 2, 1, 512, 8, true));
                }
                for (cap, window, sinks) in
                    [(3.0, 0, false), (0.0, 5, false), (0.0, 0, true), (8.0, 40, true)]
                {
                    for is_causal in [true, false] {
                        let mut with =
                            case(dtype, cache, &[(5, 5), (30, 130), (2, 1)], 6, 2, 48, 16, is_causal);
                        let shape = &mut with.params.0;
                        (shape.logit_cap, shape.window, shape.sinks) = (cap, window, sinks);
                        with.name = format!("{}, cap {cap}, window {window}, sinks {sinks}", with.name);
                        cases.push(with);
                    }
                }
                for (is_causal, window) in [(false, 0), (true, 0), (true, 30)] {
                    let mut with =
                        case(dtype, cache, &[(9, 70), (5, 5), (0, 3), (17, 20)], 4, 2, 32, 8, is_causal);
                    (with.params.0.window, with.params.2) = (window, true);
                    with.name = format!("{}, window {window}, masked", with.name);
                    cases.push(with);
                }
                if !DTypeSet::FLOAT.contains(cache) {
                    continue;
                }
                // A NaN value is hidden from all rows but those that see it.
                let mut masked = case(dtype, cache, &[(7, 7)], 3, 1, 32, 8, false);
                masked.params.2 = true;
                poison(&mut masked.tensors[2], 32 * 3 + 3);
                masked.name.push_str(", masked, a NaN value");
                cases.push(masked);
                // The last token's value is NaN: the tokens before it do not see it.
                let mut with_nan = case(dtype, cache, &[(7, 7)], 3, 1, 32, 8, true);
                poison(&mut with_nan.tensors[2], 32 * 6 + 3);
                poison(&mut with_nan.tensors[2], 32 * (8 + 6) + 3);
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
        let [q, keys, values, table, lens, offsets, sinks, mask, mask_indptr, out, lse] = tensors else {
            return None;
        };
        let (shape, is_causal, has_mask) = params;
        Some(Prefill {
            q: q.view(),
            key_cache: keys.view(),
            value_cache: values.view(),
            block_table: table.view(),
            seq_lens: lens.view(),
            qo_indptr: offsets.view(),
            sinks: shape.sinks.then(|| sinks.view()),
            mask: has_mask.then(|| mask.view()),
            mask_indptr: has_mask.then(|| mask_indptr.view()),
            out: out.view_mut(),
            lse: Some(lse.view_mut()),
            sm_scale: shape.sm_scale,
            logit_cap: shape.logit_cap,
            window: shape.window,
            k_scale: shape.scales[0],
            v_scale: shape.scales[1],
            is_causal: *is_causal,
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
) -> Case<(Shape, bool, bool)> {
    let mut rng = Rng::new(11);
    let lens: Vec<i64> = sequences.iter().map(|s| s.1).collect();
    let mut offsets = vec![0];
    sequences.iter().for_each(|s| offsets.push(offsets[offsets.len() - 1] + s.0));
    let rows = offsets[offsets.len() - 1] as usize;
    let (table, blocks) = block_table(&lens, block_size);
    let starts: Vec<i64> =
        sequences.iter().scan(2, |at, s| Some(std::mem::replace(at, *at + s.0 * s.1))).collect();
    let cells = 2 + sequences.iter().map(|s| s.0 * s.1).sum::<i64>() as usize;
    let mask: Vec<u8> = (0..cells).map(|_| u8::from(rng.below(3) > 0)).collect();
    let tensors = vec![
        normal(1, dtype, &[rows, heads, dim], 1.0),
        stored(2, cache, &[blocks, block_size, kv_heads, dim]),
        stored(3, cache, &[blocks, block_size, kv_heads, dim]),
        table,
        ints(DType::I64, &lens, &[lens.len()]),
        ints(DType::I32, &offsets, &[offsets.len()]),
        normal(4, DType::F32, &[heads], 1.0),
        Tensor::from_slice(&mask, &[cells]).unwrap_or_else(|e| panic!("test data: {e}")),
        ints(DType::I64, &starts, &[starts.len()]),
        unwritten(dtype, &[rows, heads, dim]),
        unwritten(DType::F32, &[rows, heads]),
    ];
    let causal = if is_causal { "causal" } else { "full" };
    let name = format!(
        "{dtype}, {cache} cache, (new, all) {sequences:?}, {heads}/{kv_heads} heads of {dim}, {causal}"
    );
    Case { name, tensors, params: (Shape::new(1.0 / (dim as f32).sqrt(), cache), is_causal, false) }
}
