//! Tensors of one shape as few dimensions as their strides allow.

use kernels_core::{Layout, MAX_RANK};

/// `pk_walk` of `elementwise.cu`: shape, and the strides of a, b and the output.
pub(super) struct Walk {
    pub words: [usize; 4 * MAX_RANK],
    pub count: usize,
    /// One dimension, and no gaps in any tensor.
    pub dense: bool,
}

impl Walk {
    /// Without a second input, the first stands in.
    pub fn over(a: &Layout, b: Option<&Layout>, out: &Layout) -> Walk {
        let layouts = [a, b.unwrap_or(a), out];
        // (size, strides), innermost last; a dimension that continues the one inside it in every tensor joins it.
        let (mut dims, mut n) = ([(1, [0; 3]); MAX_RANK], 0);
        for (axis, size) in a.shape().iter().copied().enumerate().filter(|(_, size)| *size != 1) {
            let strides = layouts.map(|l| l.strides()[axis]);
            match dims[..n].last_mut() {
                Some((outer, steps)) if (0..3).all(|i| steps[i] == strides[i] * size) => {
                    *outer *= size;
                    *steps = strides;
                }
                _ => {
                    dims[n] = (size, strides);
                    n += 1;
                }
            }
        }
        let dims = &dims[..n];
        let dense = n == 0 || (n == 1 && dims[0].1 == [1; 3]);
        let mut words = [0; 4 * MAX_RANK];
        words[..MAX_RANK].fill(1);
        for (i, (size, strides)) in dims.iter().enumerate() {
            let place = MAX_RANK - n + i;
            words[place] = *size;
            (0..3).for_each(|t| words[(t + 1) * MAX_RANK + place] = strides[t]);
        }
        Walk { words, count: a.elements(), dense }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_join_where_every_tensor_allows_it() {
        let full = Layout::contiguous(&[4, 1, 6, 8]).unwrap();
        let walk = Walk::over(&full, None, &full);
        assert!(walk.dense && walk.count == 192);
        let padded = Layout::strided(&[4, 1, 6, 8], &[60, 60, 10, 1]).unwrap();
        let walk = Walk::over(&padded, Some(&full), &full);
        assert!(!walk.dense);
        assert_eq!(walk.words[..5], [1, 1, 1, 24, 8]);
        assert_eq!(walk.words[5..10], [0, 0, 0, 10, 1]);
        let repeated = Layout::strided(&[4, 8], &[0, 1]).unwrap();
        let plain = Layout::contiguous(&[4, 8]).unwrap();
        assert!(!Walk::over(&repeated, None, &plain).dense);
    }
}
