//! Where a product's results go: scales, bias, one rounding.

use crate::isa::{Elem, Isa, load_some, store_tail};
use kernels_core::{View, ViewMut};

/// The output, and what results meet on their way there.
#[derive(Clone, Copy)]
pub struct Output<O> {
    ptr: *mut O,
    stride: usize,
    bias: Option<*const O>,
    /// What results are multiplied by before the bias: of each row of x, and of each weight row.
    scales: Option<(*const f32, *const f32)>,
}

impl<O: Elem> Output<O> {
    /// Without scales.
    pub fn of(out: &ViewMut<'_>, bias: Option<&View<'_>>) -> Option<Output<O>> {
        let stride = out.rows()?.stride;
        Some(Output { ptr: out.as_mut_ptr(), stride, bias: bias.map(|b| b.as_ptr()), scales: None })
    }

    /// With a scale for each row of x, and one for each weight row.
    pub fn scaled(self, x: &View<'_>, weight: &View<'_>) -> Output<O> {
        Output { scales: Some((x.as_ptr(), weight.as_ptr())), ..self }
    }

    /// Without the first `n` columns.
    ///
    /// # Safety
    /// There are that many.
    #[inline(always)]
    pub unsafe fn without_columns(self, n: usize) -> Self {
        // SAFETY: by contract.
        unsafe {
            Output {
                ptr: self.ptr.add(n),
                bias: self.bias.map(|b| b.add(n)),
                scales: self.scales.map(|(x, w)| (x, w.add(n))),
                ..self
            }
        }
    }

    /// Column `n` of row `m`.
    ///
    /// # Safety
    /// The element is inside the output.
    #[inline(always)]
    pub unsafe fn put(self, m: usize, n: usize, dot: f32) {
        // SAFETY: by contract.
        unsafe {
            let dot = match self.scales {
                Some((x, w)) => dot * *x.add(m) * *w.add(n),
                None => dot,
            };
            let bias = match self.bias {
                Some(bias) => (*bias.add(n)).to_f32(),
                None => 0.0,
            };
            self.ptr.add(m * self.stride + n).write(O::from_f32(dot + bias));
        }
    }

    /// `count` columns of row `m` from `n` on, at most a vector.
    ///
    /// # Safety
    /// `S`'s features; the elements are inside the output.
    #[inline(always)]
    pub unsafe fn store<S: Isa>(self, m: usize, n: usize, count: usize, dots: S::V) {
        // SAFETY: by contract.
        unsafe {
            let mut v = dots;
            if let Some((x, w)) = self.scales {
                let w = load_some::<S, f32>(w.add(n), count, 0.0);
                v = S::mul(S::mul(v, S::splat(*x.add(m))), w);
            }
            if let Some(bias) = self.bias {
                v = S::add(v, load_some::<S, O>(bias.add(n), count, 0.0));
            }
            let at = self.ptr.add(m * self.stride + n);
            if count < S::W { store_tail::<S, O>(at, v, count) } else { O::store::<S>(at, v) }
        }
    }
}

/// Results that lie as `[16 columns, 16 rows of x]`, from row `m` and column `n` on, as many as there are.
///
/// # Safety
/// AVX-512 F and DQ, AVX2, `S`'s features; the elements are inside the output.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub unsafe fn store_turned<S: Isa<V = std::arch::x86_64::__m512>, O: Elem>(
    out: Output<O>,
    (m, rows): (usize, usize),
    (n, columns): (usize, usize),
    tile: [S::V; 16],
) {
    // SAFETY: by contract.
    unsafe {
        let tile = crate::isa::amx::turned(tile);
        for i in 0..rows {
            out.store::<S>(m + i, n, columns, tile[i]);
        }
    }
}
