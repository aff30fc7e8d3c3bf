//! The `k` largest of a row without sorting it: one pass that keeps what is above the smallest of the best so far.
//! After the first few hundred elements nearly every vector is below, and costs a comparison.

use crate::isa::{Elem, Isa};

/// An element of a row.
#[derive(Clone, Copy)]
pub struct Entry {
    pub value: f32,
    pub id: u32,
}

/// Entries of scratch that [`largest`] takes.
pub fn room(k: usize) -> usize {
    (4 * k).max(512)
}

/// The `k` largest of `n`, the largest first, of equals the lowest ids first. There is no NaN.
///
/// # Safety
/// `S`'s features; `row` valid for `n` elements, at least `k`; `space` valid for [`room`] entries that nobody else
/// uses.
#[inline(always)]
pub unsafe fn largest<'a, S: Isa, T: Elem>(
    row: *const T,
    n: usize,
    k: usize,
    space: *mut Entry,
) -> &'a mut [Entry] {
    let (mut count, mut above, mut i) = (0, f32::NEG_INFINITY, 0);
    // SAFETY: every offset is below n, and the count below the room.
    unsafe {
        while i < n {
            let block = (4 * S::W).min(n - i);
            if count >= k && block == 4 * S::W {
                let mut v = [S::splat(0.0); 4];
                for j in 0..4 {
                    v[j] = T::load::<S>(row.add(i + j * S::W));
                }
                if S::largest(S::max(S::max(v[0], v[1]), S::max(v[2], v[3]))) <= above {
                    i += block;
                    continue;
                }
            }
            for id in i..i + block {
                let value = (*row.add(id)).to_f32();
                if count < k || value > above {
                    space.add(count).write(Entry { value, id: id as u32 });
                    count += 1;
                }
                if count == room(k) {
                    above = best(std::slice::from_raw_parts_mut(space, count), k);
                    count = k;
                }
            }
            i += block;
        }
        let all = std::slice::from_raw_parts_mut(space, count);
        best(all, k);
        let all = &mut all[..k];
        all.sort_unstable_by(order);
        all
    }
}

/// Brings the `k` best to the front; the last one's value.
fn best(entries: &mut [Entry], k: usize) -> f32 {
    entries.select_nth_unstable_by(k - 1, order).1.value
}

fn order(a: &Entry, b: &Entry) -> std::cmp::Ordering {
    b.value.total_cmp(&a.value).then(a.id.cmp(&b.id))
}
