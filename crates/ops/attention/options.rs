//! How scores are made, and what a row sees.

use super::Sequence;
use crate::args::Arg;
use crate::element::{below, index};
use kernels_core::{CallError, Ctx, DType, DTypeSet, View};

/// How scores are made. `Options::scaled(1 / √head_dim)` is plain attention.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Factor of the scores, 1 / √head_dim as a rule.
    pub sm_scale: f32,
    /// Scores become cap · tanh(score / cap); 0 for none.
    pub logit_cap: f32,
    /// How many tokens a row sees at most, its own included (sliding window); 0 for all. SGLang's
    /// `sliding_window_size` is one less.
    pub window: usize,
    /// `[num_heads]` f32: a score of each head that takes its share of the softmax and has no value.
    pub sinks: Option<View<'a>>,
    /// What stored keys are multiplied by: the scale that they were stored with.
    pub k_scale: f32,
    /// What stored values are multiplied by.
    pub v_scale: f32,
}

impl Options<'_> {
    /// Plain scores times `sm_scale`.
    pub const fn scaled(sm_scale: f32) -> Self {
        Options { sm_scale, logit_cap: 0.0, window: 0, sinks: None, k_scale: 1.0, v_scale: 1.0 }
    }
}

/// Which tokens each row may see: for sequence b, `[rows, kv_len]` bytes from `indptr[b]` on, 0 hides.
#[derive(Clone, Copy)]
pub struct Mask<'r, 'a> {
    bytes: &'r View<'a>,
    indptr: &'r View<'a>,
}

impl<'r, 'a> Mask<'r, 'a> {
    /// A mask, where both parts are there.
    pub(super) fn of(bytes: Option<&'r View<'a>>, indptr: Option<&'r View<'a>>) -> Option<Mask<'r, 'a>> {
        bytes.zip(indptr).map(|(bytes, indptr)| Mask { bytes, indptr })
    }

    /// Where the mask of a sequence begins; one that is not all inside is reported, and hides everything.
    ///
    /// # Safety
    /// Checked arguments on the host.
    pub unsafe fn base(&self, ctx: &Ctx, sequence: &Sequence) -> Option<usize> {
        // SAFETY: there is an offset for each sequence.
        let offset = unsafe { index(self.indptr, sequence.index) };
        let len = self.bytes.dim(0);
        let needed = sequence.rows.checked_mul(sequence.kv_len);
        let found = needed.and_then(|n| below(offset, (len + 1).checked_sub(n)?));
        if found.is_none() {
            ctx.out_of_range(offset, (len + 1).saturating_sub(needed.unwrap_or(usize::MAX)));
        }
        found
    }

    /// Whether row `i` of a sequence may see `token`.
    ///
    /// # Safety
    /// Checked arguments on the host; `base` is the sequence's, row and token are inside it.
    #[inline]
    pub unsafe fn sees(&self, base: usize, sequence: &Sequence, i: usize, token: usize) -> bool {
        // SAFETY: `base` was checked to leave room for every row and token.
        unsafe { *self.bytes.as_ptr::<u8>().add(base + i * sequence.kv_len + token) != 0 }
    }
}

/// Checks both parts of a mask for `batch` sequences.
pub(super) fn check_mask(
    op: &'static str,
    mask: Option<View<'_>>,
    indptr: Option<View<'_>>,
    batch: usize,
) -> Result<(), CallError> {
    match (mask, indptr) {
        (None, None) => Ok(()),
        (Some(mask), Some(indptr)) => {
            Arg::new(op, "mask", mask).dtype(DTypeSet::of(&[DType::U8]))?.rank(1)?.dense_last()?;
            Arg::new(op, "mask_indptr", indptr).indices(batch)?;
            Ok(())
        }
        (Some(view), None) | (None, Some(view)) => Err(Arg::new(op, "mask", view)
            .shape_error("\"mask\" and \"mask_indptr\" go together, and one of them is missing".into())),
    }
}
