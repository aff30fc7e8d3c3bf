//! What decode and prefill share: the checks of the cache, which rows see which tokens, and the reference.

use super::options::{Mask, Options};
use super::{Decode, Prefill};
use crate::args::{Arg, in_range};
use crate::element::{at, below, index, put};
use crate::kvcache::{CACHE, check_scales};
use kernels_core::{CallError, Ctx, DType, DTypeSet, View, ViewMut};

/// Checks the cache and the tables of an attention op for `batch` sequences; gives head_dim.
pub(super) fn check(
    op: &'static str,
    q: View<'_>,
    [key_cache, value_cache]: [View<'_>; 2],
    [block_table, seq_lens]: [View<'_>; 2],
    out: View<'_>,
    lse: Option<View<'_>>,
    batch: usize,
    options: &Options<'_>,
) -> Result<(), CallError> {
    let arg = |name, view| Arg::new(op, name, view);
    let query = arg("q", q).dtype(DTypeSet::FLOAT)?.rank(3)?.dense_last()?;
    let (tokens, heads, dim) = (q.dim(0), q.dim(1), q.dim(2));
    let keys = arg("key_cache", key_cache).dtype(CACHE)?.rank(4)?.dense_last()?;
    let kv_heads = key_cache.dim(2);
    keys.shape(&[key_cache.dim(0), key_cache.dim(1), kv_heads, dim])?;
    if heads > 0 && (kv_heads == 0 || heads % kv_heads != 0) {
        return Err(
            keys.shape_error(format!("num_heads {heads} is not a multiple of num_kv_heads {kv_heads}"))
        );
    }
    arg("value_cache", value_cache).like(keys)?.shape(key_cache.shape())?.dense_last()?;
    let table = arg("block_table", block_table).dtype(crate::args::INDEX)?.rank(2)?.dense_last()?;
    table.shape(&[batch, block_table.dim(1)])?;
    arg("seq_lens", seq_lens).indices(batch)?;
    arg("out", out).like(query)?.shape(&[tokens, heads, dim])?.dense_last()?.output()?;
    if let Some(sinks) = options.sinks {
        arg("sinks", sinks).dtype(DTypeSet::of(&[DType::F32]))?.shape(&[heads])?.dense_last()?;
    }
    let (cap, device) = (options.logit_cap, q.device());
    in_range(op, "logit_cap", cap.into(), cap >= 0.0 && cap.is_finite(), "0 and above", device)?;
    check_scales(op, [options.k_scale, options.v_scale], device)?;
    if let Some(lse) = lse {
        arg("lse", lse).dtype(DTypeSet::of(&[DType::F32]))?.shape(&[tokens, heads])?.output()?.rows()?;
    }
    Ok(())
}

/// The query rows of one sequence and the tokens that they see, read from the tables and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Its row in the block table.
    pub index: usize,
    /// First row of q.
    pub first_row: usize,
    /// Rows of q.
    pub rows: usize,
    /// Tokens in the cache, those of the rows themselves included.
    pub kv_len: usize,
    /// Whether row i sees only the first `kv_len - rows + i + 1` tokens.
    pub causal: bool,
    /// Of how many tokens, counted back from its own, a row sees the later ones at most; 0 for all.
    pub window: usize,
}

impl Sequence {
    /// The first token that row `i` of this sequence sees, if it sees any.
    #[inline]
    pub fn first(&self, i: usize) -> usize {
        match self.window {
            0 => 0,
            window => (self.kv_len + i + 1).saturating_sub(self.rows).saturating_sub(window),
        }
    }

    /// One past the last token that row `i` of this sequence sees.
    #[inline]
    pub fn visible(&self, i: usize) -> usize {
        if self.causal {
            (self.kv_len + i + 1).saturating_sub(self.rows).min(self.kv_len)
        } else {
            self.kv_len
        }
    }
}

/// The sequences of a call.
#[derive(Clone, Copy)]
pub struct Spans<'a> {
    seq_lens: View<'a>,
    /// `[batch + 1]` row offsets; without it, one row a sequence.
    qo_indptr: Option<View<'a>>,
    limit: usize,
    causal: bool,
    window: usize,
    /// The offsets partition the rows of q.
    valid: bool,
}

/// The sequences of a decode call.
pub fn decode_spans<'a>(t: &Tensors<'_, 'a>, seq_lens: View<'a>) -> Spans<'a> {
    Spans { seq_lens, qo_indptr: None, limit: t.room(), causal: false, window: t.window, valid: true }
}

/// The sequences of a prefill call over `rows` rows of q. Offsets that do not partition the rows are
/// reported; then no sequence has rows, and every output row is as one that sees nothing.
///
/// # Safety
/// Checked arguments on the host.
pub unsafe fn prefill_spans<'a>(
    ctx: &Ctx,
    t: &Tensors<'_, 'a>,
    seq_lens: View<'a>,
    qo_indptr: View<'a>,
    causal: bool,
) -> Spans<'a> {
    let rows = t.q.dim(0);
    let (mut last, mut valid) = (0, true);
    for i in 0..qo_indptr.dim(0) {
        // SAFETY: i is below the number of offsets.
        let offset = unsafe { index(&qo_indptr, i) };
        if offset < last || offset > rows as i64 || (i == 0 && offset != 0) {
            ctx.out_of_range(offset, rows + 1);
            valid = false;
            break;
        }
        last = offset;
    }
    if valid && last != rows as i64 {
        ctx.out_of_range(last, rows + 1);
        valid = false;
    }
    Spans { seq_lens, qo_indptr: Some(qo_indptr), limit: t.room(), causal, window: t.window, valid }
}

impl Spans<'_> {
    /// Number of sequences.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.seq_lens.dim(0)
    }

    /// Whether the row offsets could be used.
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// Sequence `i`. A length beyond the block table is reported and taken as 0.
    ///
    /// # Safety
    /// Checked arguments on the host, and `i` below [`Spans::len`].
    #[inline]
    pub unsafe fn sequence(&self, ctx: &Ctx, i: usize) -> Sequence {
        // SAFETY: by contract.
        let len = unsafe { index(&self.seq_lens, i) };
        let kv_len = below(len, self.limit + 1).unwrap_or_else(|| {
            ctx.out_of_range(len, self.limit + 1);
            0
        });
        let (first_row, rows) = match &self.qo_indptr {
            None => (i, 1),
            Some(_) if !self.valid => (0, 0),
            Some(offsets) => {
                // SAFETY: there is one offset more than sequences; they were checked to be ordered.
                let (start, end) = unsafe { (index(offsets, i), index(offsets, i + 1)) };
                (start as usize, (end - start) as usize)
            }
        };
        Sequence { index: i, first_row, rows, kv_len, causal: self.causal, window: self.window }
    }
}

/// What decode and prefill have in common, as their kernels take it.
#[derive(Clone, Copy)]
pub struct Tensors<'r, 'a> {
    /// Queries.
    pub q: &'r View<'a>,
    /// Paged keys.
    pub key_cache: &'r View<'a>,
    /// Paged values.
    pub value_cache: &'r View<'a>,
    /// Blocks of each sequence.
    pub block_table: &'r View<'a>,
    /// Results.
    pub out: &'r ViewMut<'a>,
    /// Natural-log LSE.
    pub lse: Option<&'r ViewMut<'a>>,
    /// `[num_heads]`: a score of each head that has no value.
    pub sinks: Option<&'r View<'a>>,
    /// Which tokens each row may see.
    pub mask: Option<Mask<'r, 'a>>,
    /// Factor of the scores.
    pub sm_scale: f32,
    /// Soft cap of the scores; 0 for none.
    pub logit_cap: f32,
    /// How many tokens a row sees at most; 0 for all.
    pub window: usize,
    /// What stored keys are multiplied by.
    pub k_scale: f32,
    /// What stored values are multiplied by.
    pub v_scale: f32,
}

impl Tensors<'_, '_> {
    /// Tokens that the block table has room for, for each sequence.
    pub fn room(&self) -> usize {
        self.block_table.dim(1).saturating_mul(self.key_cache.dim(1))
    }
}

macro_rules! tensors_of {
    ($op:ident, |$a:ident| $mask:expr) => {
        impl<'a> $op<'a> {
            /// What decode and prefill have in common.
            pub fn tensors<'r>(&'r self) -> Tensors<'r, 'a> {
                let $a = self;
                Tensors {
                    q: &self.q,
                    key_cache: &self.key_cache,
                    value_cache: &self.value_cache,
                    block_table: &self.block_table,
                    out: &self.out,
                    lse: self.lse.as_ref(),
                    sinks: self.sinks.as_ref(),
                    mask: $mask,
                    sm_scale: self.sm_scale,
                    logit_cap: self.logit_cap,
                    window: self.window,
                    k_scale: self.k_scale,
                    v_scale: self.v_scale,
                }
            }
        }
    };
}
tensors_of!(Decode, |_a| None);
tensors_of!(Prefill, |a| Mask::of(a.mask.as_ref(), a.mask_indptr.as_ref()));

/// The reference: each row and head by itself, in f64.
///
/// # Safety
/// Checked arguments on the host.
pub(super) unsafe fn reference(ctx: &Ctx, t: &Tensors<'_, '_>, spans: &Spans<'_>) {
    if !spans.valid() {
        for row in 0..t.q.dim(0) {
            for head in 0..t.q.dim(1) {
                // SAFETY: row and head are inside q.
                unsafe { one(ctx, t, None, row, head) };
            }
        }
    }
    for s in 0..spans.len() {
        // SAFETY: s is below the number of sequences; rows are inside q by the spans' check.
        unsafe {
            let sequence = spans.sequence(ctx, s);
            let base = t.mask.map(|m| m.base(ctx, &sequence));
            for i in 0..sequence.rows {
                for head in 0..t.q.dim(1) {
                    one(ctx, t, Some((&sequence, i, base)), sequence.first_row + i, head);
                }
            }
        }
    }
}

/// One row and head: row `i` of a sequence and the place of its mask, or nothing to see.
///
/// # Safety
/// Checked arguments on the host; `row` and `head` inside q.
unsafe fn one(
    ctx: &Ctx,
    t: &Tensors<'_, '_>,
    seen: Option<(&Sequence, usize, Option<Option<usize>>)>,
    row: usize,
    head: usize,
) {
    let (dim, blocks, block_size) = (t.q.dim(2), t.key_cache.dim(0), t.key_cache.dim(1));
    let kv_head = head / (t.q.dim(1) / t.key_cache.dim(2));
    let (scale, cap) = (f64::from(t.sm_scale) * f64::from(t.k_scale), f64::from(t.logit_cap));
    let mut scores = Vec::new();
    if let Some((s, i, base)) = seen {
        for token in s.first(i)..s.visible(i) {
            // SAFETY: the token is inside the block table's row, and its mask inside the mask.
            let block = unsafe {
                if let (Some(mask), Some(base)) = (t.mask, base)
                    && !base.is_some_and(|b| mask.sees(b, s, i, token))
                {
                    continue;
                }
                index(t.block_table, s.index * t.block_table.stride(0) + token / block_size)
            };
            let Some(b) = below(block, blocks) else {
                ctx.out_of_range(block, blocks);
                continue;
            };
            let place =
                |c: &View<'_>| b * c.stride(0) + token % block_size * c.stride(1) + kv_head * c.stride(2);
            let (key, value) = (place(t.key_cache), place(t.value_cache));
            let query = row * t.q.stride(0) + head * t.q.stride(1);
            // SAFETY: all indices are inside their dimensions.
            let dot: f64 = unsafe { (0..dim).map(|i| at(t.q, query + i) * at(t.key_cache, key + i)).sum() };
            let score = dot * scale;
            scores.push((if cap > 0.0 { cap * (score / cap).tanh() } else { score }, value));
        }
    }
    // A NaN score is not passed over, as `f64::max` would.
    let largest = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
    // SAFETY: there is a sink for each head.
    let sink = t.sinks.map_or(f64::NEG_INFINITY, |s| unsafe { at(s, head) });
    let max = scores.iter().map(|s| s.0).fold(sink, largest);
    let weight = |score: f64| if max == f64::NEG_INFINITY { 0.0 } else { (score - max).exp() };
    let weights: Vec<f64> = scores.iter().map(|s| weight(s.0)).collect();
    let total: f64 = weights.iter().sum::<f64>() + weight(sink);
    let target = row * t.out.stride(0) + head * t.out.stride(1);
    for i in 0..dim {
        // SAFETY: as above.
        unsafe {
            let sum: f64 = weights.iter().zip(&scores).map(|(w, s)| w * at(t.value_cache, s.1 + i)).sum();
            let sum = sum * f64::from(t.v_scale);
            put(t.out, target + i, if total == 0.0 { 0.0 } else { sum / total });
        }
    }
    if let Some(lse) = t.lse {
        let value = if total == 0.0 { f64::NEG_INFINITY } else { max + total.ln() };
        // SAFETY: lse has an entry for each row and head.
        unsafe { put(lse, row * lse.stride(0) + head, value) };
    }
}
