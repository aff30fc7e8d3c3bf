//! Some tokens of a sequence, found in the paged cache.

use crate::isa::Elem;
use kernels_core::Ctx;
use kernels_ops::attention::{Sequence, Tensors};
use kernels_ops::element::{below, index};

/// Tokens in a chunk at most.
pub const CHUNK: usize = 64;

/// In place of the weight of a token that a mask hides.
pub const HIDDEN: f32 = -1.0;

/// Where the tokens' keys and values of the first key-value head are.
pub struct Chunk<C> {
    pub keys: [*const C; CHUNK],
    pub values: [*const C; CHUNK],
    tokens: [usize; CHUNK],
    pub len: usize,
}

impl<C: Elem> Chunk<C> {
    /// The next tokens from `token` on, below `end`, if any is left; those in blocks outside the cache are reported and
    /// skipped.
    ///
    /// # Safety
    /// Checked arguments on the host; the tokens are inside the block table's row.
    #[inline(always)]
    pub unsafe fn next(
        ctx: &Ctx,
        t: &Tensors<'_, '_>,
        sequence: &Sequence,
        token: &mut usize,
        end: usize,
    ) -> Option<Chunk<C>> {
        let none = [std::ptr::null(); CHUNK];
        let mut chunk = Chunk { keys: none, values: none, tokens: [0; CHUNK], len: 0 };
        let block_size = t.key_cache.dim(1);
        while *token < end && chunk.len < CHUNK {
            let (block, row) = (*token / block_size, *token % block_size);
            let run = (block_size - row).min(end - *token).min(CHUNK - chunk.len);
            // SAFETY: passed on; so many rows are left of the block.
            unsafe {
                if let Some((key, value)) = locate::<C>(ctx, t, sequence, (block, row)) {
                    for i in 0..run {
                        chunk.keys[chunk.len] = key.add(i * t.key_cache.stride(1));
                        chunk.values[chunk.len] = value.add(i * t.value_cache.stride(1));
                        chunk.tokens[chunk.len] = *token + i;
                        chunk.len += 1;
                    }
                }
            }
            *token += run;
        }
        (chunk.len > 0).then_some(chunk)
    }

    /// Which tokens they are, ascending.
    #[inline(always)]
    pub fn tokens(&self) -> &[usize] {
        &self.tokens[..self.len]
    }
}

/// Key and value of the first head of a row of a sequence's block; one outside the cache is reported.
///
/// # Safety
/// Checked arguments on the host; the block is inside the block table's row.
#[inline(always)]
unsafe fn locate<C: Elem>(
    ctx: &Ctx,
    t: &Tensors<'_, '_>,
    s: &Sequence,
    (block, row): (usize, usize),
) -> Option<(*const C, *const C)> {
    // SAFETY: by contract; block and row are inside the cache.
    unsafe {
        let entry = index(t.block_table, s.index * t.block_table.stride(0) + block);
        let Some(b) = below(entry, t.key_cache.dim(0)) else {
            ctx.out_of_range(entry, t.key_cache.dim(0));
            return None;
        };
        let (k, v) = (t.key_cache, t.value_cache);
        Some((
            k.as_ptr::<C>().add(b * k.stride(0) + row * k.stride(1)),
            v.as_ptr::<C>().add(b * v.stride(0) + row * v.stride(1)),
        ))
    }
}
