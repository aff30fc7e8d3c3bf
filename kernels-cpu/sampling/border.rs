//! The border between what top-k and top-p keep and what they do not, found without sorting: a histogram over
//! the weights' leading bits, and only the bin that holds the border is sorted.

/// What is kept: weights above the border's, and of equals the ids up to the border's.
#[derive(Clone, Copy)]
pub struct Border {
    pub weight: f32,
    pub id: usize,
}

impl Border {
    /// Keeps everything.
    pub const ALL: Border = Border { weight: 0.0, id: usize::MAX };

    pub fn keeps(self, weight: f32, id: usize) -> bool {
        weight > self.weight || (weight == self.weight && id <= self.id)
    }
}

/// Bins by the leading bits of a weight in 0..=1 (larger ones join the last): 8 of the exponent, 3 of the mantissa.
const BINS: usize = (1f32.to_bits() >> SHIFT) as usize + 1;
const SHIFT: u32 = 20;

/// The last one kept by top-k (0 for all) and then top-p (1 and above for all, else above 0).
///
/// # Safety
/// `ids` is valid for as many entries as there are weights.
pub unsafe fn find_border(top_k: usize, top_p: f64, w: &[f32], ids: *mut u32) -> Border {
    let mut counts = [0u32; BINS];
    let mut sums = [0f64; BINS];
    let bin = |w: f32| ((w.to_bits() >> SHIFT) as usize).min(BINS - 1);
    for weight in w {
        let b = bin(*weight);
        counts[b] += 1;
        sums[b] += f64::from(*weight);
    }
    // From the most probable down: the bin in which the k-th is, and how many of it are kept.
    let (mut last_bin, mut of_last) = (0, counts[0] as usize);
    let (mut by_count, mut kept) = (Border::ALL, sums.iter().sum::<f64>());
    if top_k > 0 && top_k < w.len() {
        let (mut at, mut count, mut sum) = (BINS - 1, 0usize, 0f64);
        while count + (counts[at] as usize) < top_k {
            count += counts[at] as usize;
            sum += sums[at];
            at -= 1;
        }
        // SAFETY: passed on.
        let members = unsafe { sorted_bin(w, ids, at, &bin, counts[at] as usize) };
        let members = &members[..top_k - count];
        (last_bin, of_last) = (at, members.len());
        by_count = last(w, members).unwrap_or(Border::ALL);
        kept = sum + members.iter().map(|i| f64::from(w[*i as usize])).sum::<f64>();
    }
    if top_p >= 1.0 {
        return by_count;
    }
    let target = top_p * kept;
    let (mut at, mut sum) = (BINS - 1, 0f64);
    while at > last_bin && sum + sums[at] < target {
        sum += sums[at];
        at -= 1;
    }
    let limit = if at == last_bin { of_last } else { counts[at] as usize };
    // SAFETY: passed on.
    let members = unsafe { sorted_bin(w, ids, at, &bin, counts[at] as usize) };
    for i in &members[..limit] {
        sum += f64::from(w[*i as usize]);
        if sum >= target {
            return Border { weight: w[*i as usize], id: *i as usize };
        }
    }
    last(w, &members[..limit]).unwrap_or(by_count)
}

/// The border that keeps all of `members`.
fn last(w: &[f32], members: &[u32]) -> Option<Border> {
    members.last().map(|i| Border { weight: w[*i as usize], id: *i as usize })
}

/// The ids of one bin, the most probable first, of equals the lowest first.
///
/// # Safety
/// `ids` is valid for `count` entries, and nobody else has a slice of it in use.
unsafe fn sorted_bin<'a>(
    w: &[f32],
    ids: *mut u32,
    at: usize,
    bin: &impl Fn(f32) -> usize,
    count: usize,
) -> &'a [u32] {
    let mut n = 0;
    for (i, weight) in w.iter().enumerate() {
        if bin(*weight) == at && n < count {
            // SAFETY: n is below count.
            unsafe { ids.add(n).write(i as u32) };
            n += 1;
        }
    }
    // SAFETY: n entries were just written.
    let members = unsafe { std::slice::from_raw_parts_mut(ids, n) };
    members.sort_unstable_by(|a, b| w[*b as usize].total_cmp(&w[*a as usize]).then(a.cmp(b)));
    members
}
