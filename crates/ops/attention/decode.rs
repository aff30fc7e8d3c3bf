//! `attention.decode`: one query token for each sequence, over its paged keys and values.
//!
//! Score of token t for head h: s = (q_h · k_t) · k_scale · sm_scale, with a soft cap c · tanh(s / c). Over the tokens
//! that the row sees, out = Σ e^(s_t) v_t · v_scale / (Σ e^(s_t) + e^sink), and LSE = ln of that denominator
//! (Vaswani et al. 2017; paged by Kwon et al. 2023; soft cap: Gemma Team 2024; sliding window: Beltagy et al. 2020;
//! sinks: Xiao et al. 2023).

use super::Options;
use super::paged::{check, decode_spans, reference as paged_reference};
use crate::data::{ints, normal, poison, unwritten};
use crate::kvcache::CACHE;
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
        /// `[blocks, block_size, num_kv_heads, head_dim]`, f32, f16, bf16, i8 or f8_e4m3; a dense last dimension.
        reads key_cache,
        /// Shape and type of `key_cache`.
        reads value_cache,
        /// `[batch, max_blocks]`, i32, i64 or u32.
        reads block_table,
        /// `[batch]`: tokens in the cache, the new one included.
        reads seq_lens,
        /// `[num_heads]` f32: a score of each head that takes its share of the softmax and has no value.
        maybe sinks,
        /// Shape and type of `q`.
        writes out,
        /// `[batch, num_heads]` f32: natural-log LSE.
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
    options: Options<'a>,
) -> Result<Tensor> {
    let q = q.into();
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(q.dtype(), q.shape(), q.device())? };
    let (key_cache, value_cache): (View<'_>, View<'_>) = (key_cache.into(), value_cache.into());
    let (block_table, seq_lens): (View<'_>, View<'_>) = (block_table.into(), seq_lens.into());
    decode_into(q, key_cache, value_cache, block_table, seq_lens, options, &mut out)?;
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
    options: Options<'a>,
    out: impl Into<ViewMut<'a>>,
) -> Result<()> {
    Decode {
        q: q.into(),
        key_cache: key_cache.into(),
        value_cache: value_cache.into(),
        block_table: block_table.into(),
        seq_lens: seq_lens.into(),
        out: out.into(),
        sinks: options.sinks,
        lse: None,
        sm_scale: options.sm_scale,
        logit_cap: options.logit_cap,
        window: options.window,
        k_scale: options.k_scale,
        v_scale: options.v_scale,
    }
    .run()
}

impl<'a> Decode<'a> {
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
        let batch = self.q.shape().first().copied().unwrap_or(0);
        let lse = self.lse.as_ref().map(|l| l.as_view());
        check(Self::OP, self.q, caches, tables, self.out.as_view(), lse, batch, &self.options())?;
        let key = Key::of(self.q.dtype()).with_weight(self.key_cache.dtype()).with_fact(self.q.dim(2));
        Ok(Valid { key, empty: self.q.dim(0) * self.q.dim(1) == 0 })
    }
}

unsafe fn reference(ctx: &Ctx, a: &Decode<'_>) -> Result<(), RunError> {
    // SAFETY: checked arguments on the host.
    unsafe { paged_reference(ctx, &a.tensors(), &decode_spans(&a.tensors(), a.seq_lens)) };
    Ok(())
}

kernel!(unsafe {
    op: Decode,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, CACHE),
    run: reference,
});

crate::contract!(Decode);

/// The values of an attention case.
pub struct Shape {
    pub(super) sm_scale: f32,
    pub(super) logit_cap: f32,
    pub(super) window: usize,
    pub(super) sinks: bool,
    pub(super) scales: [f32; 2],
}

impl Shape {
    pub(super) fn new(sm_scale: f32, cache: DType) -> Shape {
        let scales = if cache == DType::I8 { [1.0 / 40.0, 1.0 / 30.0] } else { [1.0, 1.0] };
        Shape { sm_scale, logit_cap: 0.0, window: 0, sinks: false, scales }
    }
}

/// Keys or values of order 1 once they are multiplied by the scale.
pub(super) fn stored(seed: u64, cache: DType, shape: &[usize]) -> Tensor {
    normal(seed, cache, shape, if cache == DType::I8 { 35.0 } else { 1.0 })
}

impl Contract for Decode<'static> {
    type Params = Shape;
    const OUTPUTS: &'static [usize] = &[6, 7];

    fn cases() -> Vec<Case<Shape>> {
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for cache in CACHE.iter() {
                // GQA, odd dims, MQA, lengths at and around block ends, an empty sequence.
                cases.push(case(dtype, cache, &[1, 16, 17, 0], 6, 2, 64, 16, 1.0));
                cases.push(case(dtype, cache, &[70], 3, 3, 33, 32, 1.0));
                cases.push(case(dtype, cache, &[300, 5], 8, 1, 128, 64, 4.0));
                cases.push(case(dtype, cache, &[], 2, 1, 64, 16, 1.0));
                if dtype == cache {
                    cases.push(case(dtype, cache, &[70, 3], 10, 1, 512, 8, 1.0));
                }
                // A NaN query head, a NaN key and a NaN value: each makes what reads it NaN, and nothing else.
                for tensor in 0..if DTypeSet::FLOAT.contains(cache) { 3 } else { 1 } {
                    let mut with_nan = case(dtype, cache, &[20, 9], 4, 2, 24, 8, 1.0);
                    poison(&mut with_nan.tensors[tensor], 30);
                    with_nan.name = format!("{}, a NaN in tensor {tensor}", with_nan.name);
                    cases.push(with_nan);
                }
                // A cap that bends, a window within, at and beyond a block, sinks, and all of them.
                for (cap, window, sinks) in
                    [(3.0, 0, false), (0.0, 5, false), (0.0, 0, true), (8.0, 40, true)]
                {
                    let mut with = case(dtype, cache, &[1, 17, 0, 130], 6, 2, 40, 16, 3.0);
                    (with.params.logit_cap, with.params.window, with.params.sinks) = (cap, window, sinks);
                    with.name = format!("{}, cap {cap}, window {window}, sinks {sinks}", with.name);
                    cases.push(with);
                }
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Shape>> {
        let sizes = [(1, 1024), (1, 4096), (8, 1024), (8, 4096)];
        let of = |d| sizes.map(|(batch, len)| case(d, d, &vec![len; batch], 32, 8, 128, 64, 1.0));
        let mut cases: Vec<_> = FLOATS.into_iter().flat_map(of).collect();
        let eight = |c| case(DType::BF16, c, &[4096], 32, 8, 128, 64, 1.0);
        cases.extend(DTypeSet::EIGHT_BIT.iter().map(eight));
        cases
    }

    fn bind<'a>(shape: &Shape, tensors: &'a mut [Tensor]) -> Option<Decode<'a>> {
        let [q, keys, values, table, lens, sinks, out, lse] = tensors else { return None };
        Some(Decode {
            q: q.view(),
            key_cache: keys.view(),
            value_cache: values.view(),
            block_table: table.view(),
            seq_lens: lens.view(),
            sinks: shape.sinks.then(|| sinks.view()),
            out: out.view_mut(),
            lse: Some(lse.view_mut()),
            sm_scale: shape.sm_scale,
            logit_cap: shape.logit_cap,
            window: shape.window,
            k_scale: shape.scales[0],
            v_scale: shape.scales[1],
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
) -> Case<Shape> {
    let batch = lens.len();
    let (table, blocks) = super::prefill::block_table(lens, block_size);
    let tensors = vec![
        normal(1, dtype, &[batch, heads, dim], 1.0),
        stored(2, cache, &[blocks, block_size, kv_heads, dim]),
        stored(3, cache, &[blocks, block_size, kv_heads, dim]),
        table,
        ints(DType::I32, lens, &[batch]),
        normal(4, DType::F32, &[heads], 1.0),
        unwritten(dtype, &[batch, heads, dim]),
        unwritten(DType::F32, &[batch, heads]),
    ];
    let shown = if batch > 4 { format!("{batch} of {}", lens[0]) } else { format!("{lens:?}") };
    let name = format!(
        "{dtype}, {cache} cache, lengths {shown}, {heads}/{kv_heads} heads of {dim}, blocks of {block_size}"
    );
    Case { name, tensors, params: Shape::new(sharpness / (dim as f32).sqrt(), cache) }
}
