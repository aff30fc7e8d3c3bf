//! Tensors of one shape and any strides, as runs along one dimension.
//!
//! Dimensions are put in the order of the output's strides, and those that lie as one in every tensor are
//! joined; what is left of them inside is a run, cut into pieces. A dense call is one long run.

use crate::pool::Plan;
use kernels_core::{Layout, MAX_RANK};

/// Elements of a piece: at 4 bytes and three tensors, what L1 holds.
const PIECE: usize = 4096;

/// The runs of `N` tensors, the output the last of them.
pub struct Walk<const N: usize> {
    rank: usize,
    dims: [usize; MAX_RANK],
    strides: [[usize; N]; MAX_RANK],
    pieces: usize,
}

/// A piece of a run: where it begins in each tensor, the steps along it, and its length.
pub struct Run<const N: usize> {
    pub start: [usize; N],
    pub step: [usize; N],
    pub len: usize,
}

impl<const N: usize> Walk<N> {
    /// Of layouts of one shape.
    #[inline]
    pub fn new(layouts: [&Layout; N]) -> Walk<N> {
        let mut walk = Walk { rank: 0, dims: [1; MAX_RANK], strides: [[0; N]; MAX_RANK], pieces: 0 };
        let out = layouts[N - 1];
        if out.elements() == 0 {
            return walk;
        }
        let mut order = [0, 1, 2, 3, 4];
        let order = &mut order[..out.rank()];
        order.sort_by_key(|axis| std::cmp::Reverse(out.strides()[*axis]));
        for axis in order.iter().copied().filter(|axis| out.shape()[*axis] != 1) {
            let (dim, strides) = (out.shape()[axis], layouts.map(|l| l.strides()[axis]));
            let joins = walk.rank > 0 && (0..N).all(|n| walk.strides[walk.rank - 1][n] == strides[n] * dim);
            match joins {
                true => walk.dims[walk.rank - 1] *= dim,
                false => {
                    walk.dims[walk.rank] = dim;
                    walk.rank += 1;
                }
            }
            walk.strides[walk.rank - 1] = strides;
        }
        walk.rank = walk.rank.max(1);
        walk.pieces = walk.dims[walk.rank - 1].div_ceil(PIECE);
        walk
    }

    /// A unit is a piece.
    pub fn plan(&self) -> Plan {
        let all: usize = self.dims.iter().product();
        let last = self.dims[self.rank.saturating_sub(1)];
        if self.pieces == 0 {
            return Plan { units: 0, work: 0 };
        }
        Plan { units: all / last * self.pieces, work: all }
    }

    /// Unit `u`.
    #[inline]
    pub fn run(&self, u: usize) -> Run<N> {
        let last = self.rank - 1;
        let (mut rest, first) = (u / self.pieces, u % self.pieces * PIECE);
        let mut start = self.strides[last].map(|s| first * s);
        for axis in (0..last).rev() {
            let along = rest % self.dims[axis];
            rest /= self.dims[axis];
            for n in 0..N {
                start[n] += along * self.strides[axis][n];
            }
        }
        Run { start, step: self.strides[last], len: PIECE.min(self.dims[last] - first) }
    }
}
