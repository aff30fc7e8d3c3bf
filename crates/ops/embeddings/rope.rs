//! `embeddings.rope`: rotary position embedding of q and k in place (Su et al. 2021).
//!
//! Pair j of a head turns by the angle of its position: (x, y) to (x cos − y sin, y cos + x sin). The pairs
//! are (j, j + rotary_dim / 2) for neox, (2j, 2j + 1) for interleaved.

use crate::args::Arg;
use crate::data::{ints, normal, poison};
use crate::element::{at, below, index, put};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Rotary position embedding of q and k, in place, neox or interleaved, full or partial.
    ///
    /// Turned in f32, rounded once. A position outside the cache leaves its token unturned and gives the
    /// error `OutOfRange`. q and k have one type: f32, f16 or bf16.
    pub struct Rope = "embeddings.rope" {
        /// `[tokens]`, i32, i64 or u32.
        reads positions,
        /// `[tokens, num_heads, head_dim]`; any strides but a dense last dimension (columns of a fused qkv).
        writes q,
        /// `[tokens, num_kv_heads, head_dim]`, likewise.
        writes k,
        /// `[max_positions, rotary_dim]` f32: cosines in the first half, sines in the second.
        reads cos_sin_cache,
        /// Pairs (j, j + rotary_dim / 2); otherwise (2j, 2j + 1).
        value is_neox: bool,
    }
}

/// Turns `q` and `k` in place.
///
/// # Errors
/// A position outside the cache, shapes or types that do not fit, or no usable kernel.
pub fn rope<'a>(
    positions: impl Into<View<'a>>,
    q: impl Into<ViewMut<'a>>,
    k: impl Into<ViewMut<'a>>,
    cos_sin_cache: impl Into<View<'a>>,
    is_neox: bool,
) -> Result<()> {
    Rope {
        positions: positions.into(),
        q: q.into(),
        k: k.into(),
        cos_sin_cache: cos_sin_cache.into(),
        is_neox,
    }
    .run()
}

/// The cache for `theta` on the host: angles position · theta^(−2j / rotary_dim), in f64, rounded to f32.
///
/// # Errors
/// No memory.
pub fn cos_sin_cache(max_positions: usize, rotary_dim: usize, theta: f64) -> Result<Tensor> {
    cos_sin_cache_scaled(max_positions, rotary_dim, theta, 1.0)
}

/// The same with positions divided by `factor` (linear scaling, Chen et al. 2023).
///
/// # Errors
/// No memory.
pub fn cos_sin_cache_scaled(
    max_positions: usize,
    rotary_dim: usize,
    theta: f64,
    factor: f64,
) -> Result<Tensor> {
    let half = rotary_dim / 2;
    let mut data = Vec::with_capacity(max_positions * rotary_dim);
    for p in 0..max_positions {
        let angle = |j: usize| p as f64 / factor * theta.powf(-2.0 * j as f64 / rotary_dim as f64);
        data.extend((0..half).map(|j| angle(j).cos() as f32));
        data.extend((0..half).map(|j| angle(j).sin() as f32));
    }
    Tensor::from_slice(&data, &[max_positions, 2 * half])
}

impl Rope<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        check(Self::OP, self.positions, &self.q, &self.k, self.cos_sin_cache)
    }
}

/// Checks what every op that turns q and k takes.
pub(crate) fn check(
    op: &'static str,
    positions: View<'_>,
    q: &ViewMut<'_>,
    k: &ViewMut<'_>,
    cos_sin_cache: View<'_>,
) -> Result<Valid, CallError> {
    let arg = |name, view| Arg::new(op, name, view);
    let query = arg("q", q.as_view()).dtype(DTypeSet::FLOAT)?.rank(3)?.dense_last()?.output()?;
    let (tokens, dim) = (q.dim(0), q.dim(2));
    let key = arg("k", k.as_view()).like(query)?.rank(3)?.dense_last()?.output()?;
    key.shape(&[tokens, k.dim(1), dim])?;
    arg("positions", positions).indices(tokens)?;
    let cache = arg("cos_sin_cache", cos_sin_cache).dtype(DTypeSet::of(&[DType::F32]))?.rank(2)?;
    let rotary = cache.rows()?.cols;
    if rotary % 2 != 0 || rotary > dim {
        return Err(
            cache.shape_error(format!("rotary_dim is even and at most head_dim {dim}; {rotary} given"))
        );
    }
    let heads = q.dim(1) + k.dim(1);
    Ok(Valid { key: Key::of(q.dtype()).with_fact(dim), empty: tokens == 0 || rotary == 0 || heads == 0 })
}

/// Row of the cache for token `t`; one that is outside is reported.
///
/// # Safety
/// Checked arguments on the host, and `t` below the number of positions.
#[inline(always)]
pub unsafe fn position(ctx: &Ctx, positions: &View<'_>, cache: &View<'_>, t: usize) -> Option<usize> {
    // SAFETY: by contract.
    let position = unsafe { index(positions, t) };
    let row = below(position, cache.dim(0));
    if row.is_none() {
        ctx.out_of_range(position, cache.dim(0));
    }
    row
}

/// A head by the angles of row `p` of the cache.
///
/// # Safety
/// Checked arguments on the host, and `p` below the cache's rows.
pub(crate) unsafe fn turned(head: &mut [f64], cache: &View<'_>, p: usize, is_neox: bool) {
    let half = cache.dim(1) / 2;
    for j in 0..half {
        let (first, second) = if is_neox { (j, j + half) } else { (2 * j, 2 * j + 1) };
        // SAFETY: by contract.
        let (cos, sin) =
            unsafe { (at(cache, p * cache.stride(0) + j), at(cache, p * cache.stride(0) + half + j)) };
        let (u, v) = (head[first], head[second]);
        (head[first], head[second]) = (u * cos - v * sin, v * cos + u * sin);
    }
}

unsafe fn reference(ctx: &Ctx, a: &Rope<'_>) -> Result<(), RunError> {
    for t in 0..a.q.dim(0) {
        // SAFETY: t is below the number of positions.
        let Some(p) = (unsafe { position(ctx, &a.positions, &a.cos_sin_cache, t) }) else { continue };
        // SAFETY: the token is inside both, the position in the cache.
        unsafe { turn_token([&a.q, &a.k], t, &a.cos_sin_cache, p, a.is_neox) };
    }
    Ok(())
}

/// Every head of token `t` by the angles of row `p` of the cache.
///
/// # Safety
/// Checked arguments on the host; token and row are inside.
pub(crate) unsafe fn turn_token(
    both: [&ViewMut<'_>; 2],
    t: usize,
    cache: &View<'_>,
    p: usize,
    is_neox: bool,
) {
    for x in both {
        for h in 0..x.dim(1) {
            // SAFETY: token and head are inside x; rotary_dim is at most head_dim.
            unsafe {
                let mut head = read_head(x, t, h);
                turned(&mut head, cache, p, is_neox);
                write_head(x, t, h, &head);
            }
        }
    }
}

/// Head `h` of token `t`.
///
/// # Safety
/// The view is on the host, and both are inside it.
pub(crate) unsafe fn read_head(x: &ViewMut<'_>, t: usize, h: usize) -> Vec<f64> {
    let start = t * x.stride(0) + h * x.stride(1);
    // SAFETY: by contract.
    (0..x.dim(2)).map(|i| unsafe { at(&x.as_view(), start + i) }).collect()
}

/// # Safety
/// As for [`read_head`].
pub(crate) unsafe fn write_head(x: &ViewMut<'_>, t: usize, h: usize, head: &[f64]) {
    let start = t * x.stride(0) + h * x.stride(1);
    // SAFETY: by contract.
    head.iter().enumerate().for_each(|(i, v)| unsafe { put(x, start + i, *v) });
}

kernel!(unsafe {
    op: Rope,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(Rope);

/// How a case cuts q and k from one fused tensor `[tokens, columns]`.
pub struct Cut {
    q_heads: usize,
    k_heads: usize,
    dim: usize,
    pub(crate) is_neox: bool,
}

impl Cut {
    /// q and k of the fused tensor.
    pub(crate) fn of<'a>(&self, qkv: &'a mut Tensor) -> Option<[ViewMut<'a>; 2]> {
        let (q, rest) = qkv.view_mut().split_at(1, self.q_heads * self.dim)?;
        let (k, _v) = rest.split_at(1, self.k_heads * self.dim)?;
        Some([q.split_dim(1, self.dim)?, k.split_dim(1, self.dim)?])
    }
}

impl Contract for Rope<'static> {
    type Params = Cut;
    const OUTPUTS: &'static [usize] = &[1];

    fn cases() -> Vec<Case<Cut>> {
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for is_neox in [true, false] {
                for (tokens, q_heads, k_heads, dim, rotary) in [
                    (5, 4, 2, 64, 64),
                    (3, 9, 3, 64, 64),
                    (2, 2, 1, 80, 20),
                    (4, 3, 3, 6, 6),
                    (1, 1, 1, 128, 96),
                    (0, 4, 2, 64, 64),
                ] {
                    cases.push(case(dtype, tokens, q_heads, k_heads, dim, rotary, is_neox));
                }
            }
        }
        let mut with_nan = case(DType::F32, 3, 2, 1, 64, 64, true);
        poison(&mut with_nan.tensors[1], 70);
        with_nan.name.push_str(", a NaN");
        cases.push(with_nan);
        cases
    }

    fn bench_cases() -> Vec<Case<Cut>> {
        FLOATS.into_iter().flat_map(|d| [1, 16, 512].map(|t| case(d, t, 32, 8, 128, 128, true))).collect()
    }

    fn bind<'a>(cut: &Cut, tensors: &'a mut [Tensor]) -> Option<Rope<'a>> {
        let [positions, qkv, cos_sin_cache] = tensors else { return None };
        let [q, k] = cut.of(qkv)?;
        Some(Rope {
            positions: positions.view(),
            q,
            k,
            cos_sin_cache: cos_sin_cache.view(),
            is_neox: cut.is_neox,
        })
    }

    fn tolerance(key: Key) -> Tolerance {
        // A sum of two products may cancel: the absolute part is their rounding, for values of order 1.
        Tolerance { abs: 1e-6, ..Tolerance::rounded(key, 1.01, 1e-6) }
    }

    fn cost(a: &Rope<'_>) -> Cost {
        let (n, tokens) = ((a.q.bytes() + a.k.bytes()) as u64, a.q.dim(0));
        let cache = (tokens * a.cos_sin_cache.dim(1) * 4) as u64;
        let elements = (a.q.layout().elements() + a.k.layout().elements()) as u64;
        Cost { read: n + cache, written: n, flops: 3 * elements }
    }
}

/// Positions, a fused qkv, and the cache of angles.
pub(crate) fn case(
    dtype: DType,
    tokens: usize,
    q_heads: usize,
    k_heads: usize,
    dim: usize,
    rotary: usize,
    is_neox: bool,
) -> Case<Cut> {
    let positions: Vec<i64> = (0..tokens as i64).map(|t| t * 37 % 97).collect();
    let cache = cos_sin_cache(100, rotary, 10_000.0).unwrap_or_else(|e| panic!("test data: {e}"));
    let tensors = vec![
        ints(if is_neox { DType::I64 } else { DType::I32 }, &positions, &[tokens]),
        normal(1, dtype, &[tokens, (q_heads + 2 * k_heads) * dim], 1.0),
        cache,
    ];
    let style = if is_neox { "neox" } else { "interleaved" };
    let name =
        format!("{dtype} {style}, {tokens} tokens, {q_heads}+{k_heads} heads of {dim}, rotary_dim {rotary}");
    Case { name, tensors, params: Cut { q_heads, k_heads, dim, is_neox } }
}
