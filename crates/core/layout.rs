//! Shape and strides of a tensor or view.

use crate::dtype::DType;
use std::fmt;

/// The most dimensions a tensor has.
pub const MAX_RANK: usize = 5;

/// Shape and strides in elements; strides are never negative, and 64-bit like every offset here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    rank: u8,
    shape: [usize; MAX_RANK],
    strides: [usize; MAX_RANK],
}

impl Layout {
    /// Of one dimension without elements.
    pub const EMPTY: Layout = Layout { rank: 1, shape: [0; MAX_RANK], strides: [1; MAX_RANK] };

    /// Row-major without gaps. `None` where the rank is over [`MAX_RANK`] or the size overflows.
    pub fn contiguous(shape: &[usize]) -> Option<Layout> {
        let mut layout = Layout { rank: shape.len() as u8, shape: [1; MAX_RANK], strides: [0; MAX_RANK] };
        if shape.len() > MAX_RANK {
            return None;
        }
        layout.shape[..shape.len()].copy_from_slice(shape);
        let mut stride = 1usize;
        for (i, dim) in shape.iter().enumerate().rev() {
            layout.strides[i] = stride;
            stride = stride.checked_mul((*dim).max(1))?;
        }
        // Offsets are also computed in bytes, and allocations are bounded by isize.
        stride.checked_mul(8).filter(|b| *b <= isize::MAX as usize)?;
        Some(layout)
    }

    /// Given strides in elements. `None` on a rank that differs or is over [`MAX_RANK`], or a span that
    /// overflows.
    pub fn strided(shape: &[usize], strides: &[usize]) -> Option<Layout> {
        if shape.len() != strides.len() {
            return None;
        }
        let mut layout = Layout::contiguous(shape)?;
        layout.strides[..strides.len()].copy_from_slice(strides);
        layout.checked_span()?.checked_mul(8).filter(|b| *b <= isize::MAX as usize)?;
        Some(layout)
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape[..self.rank()]
    }

    /// The strides, in elements.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.rank()]
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape().iter().product()
    }

    fn checked_span(&self) -> Option<usize> {
        if self.shape().contains(&0) {
            return Some(0);
        }
        let mut last = 0usize;
        for (d, s) in self.shape().iter().zip(self.strides()) {
            last = last.checked_add((d - 1).checked_mul(*s)?)?;
        }
        last.checked_add(1)
    }

    /// Elements from the first to the last, gaps included: the storage that the layout needs.
    pub fn span(&self) -> usize {
        self.checked_span().unwrap_or(usize::MAX)
    }

    /// Bytes of the span for `dtype`.
    pub fn span_bytes(&self, dtype: DType) -> usize {
        self.span().div_ceil(dtype.block_len()).saturating_mul(dtype.block_bytes())
    }

    /// Whether no two indices share an element (sufficient test: sorted by stride, dimensions nest).
    pub fn is_injective(&self) -> bool {
        // On the stack: this is on the way of every call that has an output.
        let mut dims = [(0, 0); MAX_RANK];
        let mut n = 0;
        for dim in self.strides().iter().copied().zip(self.shape().iter().copied()).filter(|(_, d)| *d > 1) {
            dims[n] = dim;
            n += 1;
        }
        let dims = &mut dims[..n];
        dims.sort_unstable();
        let mut reach = 0usize;
        dims.iter().all(|(stride, dim)| {
            let nests = *stride > reach;
            reach += stride * (dim - 1);
            nests
        })
    }

    /// Whether the last dimension has stride 1 and the ones before it collapse into rows of one stride.
    pub fn rows(&self) -> Option<Rows> {
        let rank = self.rank();
        if rank == 0 {
            return None;
        }
        let cols = self.shape[rank - 1];
        if cols > 1 && self.strides[rank - 1] != 1 {
            return None;
        }
        let (mut rows, mut stride, mut inner) = (1usize, cols, None::<usize>);
        for i in (0..rank - 1).rev() {
            let (dim, step) = (self.shape[i], self.strides[i]);
            match inner {
                _ if dim == 1 => continue,
                None => stride = step,
                Some(expected) if step != expected && self.elements() > 0 => return None,
                Some(_) => {}
            }
            rows *= dim;
            inner = Some(step * dim);
        }
        Some(Rows { rows, cols, stride })
    }

    /// The same layout without its first `axis` dimension's offset: `len` entries of `axis`.
    pub fn narrowed(&self, axis: usize, len: usize) -> Layout {
        let mut layout = *self;
        layout.shape[axis] = len;
        layout
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} strides {:?}", self.shape(), self.strides())
    }
}

/// A view taken as rows of equal stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Number of rows: the product of all but the last dimension.
    pub rows: usize,
    /// Elements in a row.
    pub cols: usize,
    /// Elements from one row to the next.
    pub stride: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_collapse_only_where_strides_nest() {
        let fused = Layout::strided(&[4, 2, 8], &[48, 8, 1]).unwrap();
        assert_eq!(fused.rows(), None, "heads of a fused qkv do not collapse with tokens");
        let padded = Layout::strided(&[4, 8], &[48, 1]).unwrap();
        assert_eq!(padded.rows(), Some(Rows { rows: 4, cols: 8, stride: 48 }));
        let full = Layout::contiguous(&[3, 4, 8]).unwrap();
        assert_eq!(full.rows(), Some(Rows { rows: 12, cols: 8, stride: 8 }));
        let one = Layout::contiguous(&[1, 8]).unwrap();
        assert_eq!(one.rows().unwrap().rows, 1);
        assert_eq!(Layout::contiguous(&[0, 8]).unwrap().rows().unwrap().rows, 0);
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert!(Layout::contiguous(&[usize::MAX, 2]).is_none());
        assert!(Layout::strided(&[3, 3], &[usize::MAX / 2, 1]).is_none());
        assert!(Layout::contiguous(&[1; 6]).is_none());
    }

    #[test]
    fn overlapping_rows_are_not_injective() {
        assert!(Layout::strided(&[4, 8], &[8, 1]).unwrap().is_injective());
        assert!(!Layout::strided(&[4, 8], &[7, 1]).unwrap().is_injective());
        assert!(!Layout::strided(&[4, 8], &[0, 1]).unwrap().is_injective());
    }
}
