//! The `k` largest of a row without sorting it. The pass that finds the largest keeps the maximum of each block of the
//! row; the k-th of those has k elements at least beside or above it, so the second pass goes through the blocks that
//! reach it, k of them as a rule, and keeps little more than what it looks for.

use super::softmax::lanes_largest;
use crate::isa::{Elem, Isa, load_some};

/// An element of a row.
#[derive(Clone, Copy)]
pub struct Entry {
    pub value: f32,
    pub id: u32,
}

/// The `k` largest of rows of `n`, and the blocks of each.
#[derive(Clone, Copy)]
pub struct Top {
    k: usize,
    n: usize,
    block: usize,
}

/// Elements of the smallest block: four of the widest vectors.
const SMALLEST: usize = 64;

impl Top {
    /// `None` where a row has not two blocks for each of the `k`. Else all that finding them takes, [`Top::bytes`]
    /// and two numbers for each of the `k`, fits into 8 bytes for each element of a row.
    pub fn of(k: usize, n: usize) -> Option<Top> {
        if k == 0 || k > n / (2 * SMALLEST) {
            return None;
        }
        // Few blocks are soon sorted, small ones soon gone through.
        let block = (n / (8 * k) / SMALLEST).clamp(1, 4) * SMALLEST;
        Some(Top { k, n, block })
    }

    fn blocks(self) -> usize {
        self.n.div_ceil(self.block)
    }

    fn room(self) -> usize {
        (4 * self.k).max(SMALLEST)
    }

    /// Bytes of scratch that [`Top::maxima`] and [`Top::largest`] take.
    pub fn bytes(self) -> usize {
        8 * (self.blocks() + self.room())
    }

    /// The largest element (NaN passed over as likely as not), the plain sum, NaN where any element is, and into
    /// `scratch` the largest element of each block.
    ///
    /// # Safety
    /// `S`'s features; `row` valid for the elements, and `scratch`, which nobody else uses, for [`Top::bytes`].
    #[inline(always)]
    pub unsafe fn maxima<S: Isa, T: Elem>(self, row: *const T, scratch: *mut u8) -> (f32, f32) {
        let maxima = scratch.cast::<f32>();
        // SAFETY: every offset is below n, and a block has a maximum.
        unsafe {
            let (mut all, mut sum) = (S::splat(f32::NEG_INFINITY), [S::splat(0.0); 4]);
            for b in 0..self.blocks() {
                let from = b * self.block;
                let max;
                (max, sum) = lanes_largest::<S, T>(row.add(from), self.block.min(self.n - from), sum);
                all = S::max(max, all);
                maxima.add(b).write(S::largest(max));
            }
            (S::largest(all), S::sum_of_four(sum))
        }
    }

    /// The `k` largest, the largest first, of equals the lowest ids first; −∞ is never among them.
    ///
    /// # Safety
    /// As for [`Top::maxima`], which has been called with the same, and there was no NaN.
    #[inline(always)]
    pub unsafe fn largest<'a, S: Isa, T: Elem>(self, row: *const T, scratch: *mut u8) -> &'a mut [Entry] {
        let maxima = scratch.cast::<f32>();
        // SAFETY: two numbers for each block, and then room for the entries; every offset is below n.
        unsafe {
            let space = maxima.add(2 * self.blocks()).cast::<Entry>();
            let mut above = self.kth_maximum(maxima).next_down();
            let mut count = 0;
            for b in 0..self.blocks() {
                if *maxima.add(b) <= above {
                    continue;
                }
                let (mut i, end) = (b * self.block, self.n.min((b + 1) * self.block));
                while i < end {
                    let v = load_some::<S, T>(row.add(i), S::W.min(end - i), f32::NEG_INFINITY);
                    let mut lanes = S::lanes_above(v, above);
                    while lanes != 0 {
                        let id = i + lanes.trailing_zeros() as usize;
                        lanes &= lanes - 1;
                        // Plus 0, so that equal zeros are of one sign.
                        let value = (*row.add(id)).to_f32() + 0.0;
                        if value <= above {
                            continue;
                        }
                        space.add(count).write(Entry { value, id: id as u32 });
                        count += 1;
                        if count == self.room() {
                            above = best(std::slice::from_raw_parts_mut(space, count), self.k);
                            count = self.k;
                        }
                    }
                    i += S::W;
                }
            }
            let mut all = std::slice::from_raw_parts_mut(space, count);
            if count > self.k {
                best(all, self.k);
                all = &mut all[..self.k];
            }
            all.sort_unstable_by(order);
            all
        }
    }

    /// The k-th of the blocks' maxima, by a copy behind them.
    ///
    /// # Safety
    /// As for [`Top::largest`].
    #[inline(always)]
    unsafe fn kth_maximum(self, maxima: *mut f32) -> f32 {
        let blocks = self.blocks();
        // SAFETY: by contract.
        let copy = unsafe {
            maxima.add(blocks).copy_from_nonoverlapping(maxima, blocks);
            std::slice::from_raw_parts_mut(maxima.add(blocks), blocks)
        };
        *copy.select_nth_unstable_by(self.k - 1, |a, b| b.total_cmp(a)).1
    }
}

/// Brings the `k` best to the front; the last one's value.
fn best(entries: &mut [Entry], k: usize) -> f32 {
    entries.select_nth_unstable_by(k - 1, order).1.value
}

fn order(a: &Entry, b: &Entry) -> std::cmp::Ordering {
    b.value.total_cmp(&a.value).then(a.id.cmp(&b.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_few_and_their_scratch_fits() {
        assert!(Top::of(0, 1 << 20).is_none() && Top::of(usize::MAX, 1 << 20).is_none());
        for n in [0, 127, 128, 129, 5000, 128_256] {
            let most = n / 128;
            assert!(Top::of(most + 1, n).is_none());
            for top in (1..=most).filter_map(|k| Top::of(k, n)) {
                assert!(top.bytes() + 8 * top.k <= 8 * n, "{} of {n}", top.k);
                assert!(top.blocks() >= 2 * top.k, "{} of {n}", top.k);
            }
        }
    }
}
