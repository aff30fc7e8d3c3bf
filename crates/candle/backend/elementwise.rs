//! `elementwise.*`

use super::candle_kernel;
use super::host::{load, load_as, store};
use candle_core::Result;
use kernels_core::{Ctx, DType, DTypeSet, F8E4M3, Formats, bf16, f16};
use kernels_ops::elementwise::{Add, Cast, Copy, Mul, Scale};

unsafe fn add(_: &Ctx, a: &Add<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe { store(&(load(&a.a)? + load(&a.b)?)?, &a.out) }
}
candle_kernel!(Add, Formats::same(DTypeSet::FLOAT), add);

unsafe fn mul(_: &Ctx, a: &Mul<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe { store(&(load(&a.a)? * load(&a.b)?)?, &a.out) }
}
candle_kernel!(Mul, Formats::same(DTypeSet::FLOAT), mul);

unsafe fn scale(_: &Ctx, a: &Scale<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe { store(&(load(&a.x)? * f64::from(a.factor))?, &a.out) }
}
candle_kernel!(Scale, Formats::same(DTypeSet::FLOAT), scale);

unsafe fn cast(_: &Ctx, a: &Cast<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe {
        let x = match a.x.dtype() {
            DType::F16 => load_as::<f16>(&a.x)?,
            DType::BF16 => load_as::<bf16>(&a.x)?,
            DType::F8E4M3 => load_as::<F8E4M3>(&a.x)?,
            _ => load(&a.x)?,
        };
        store(&x, &a.out)
    }
}
const CAST: DTypeSet = DTypeSet::FLOAT.union(DTypeSet::of(&[DType::F8E4M3]));
candle_kernel!(Cast, Formats::mixed(CAST, CAST), cast);

unsafe fn copy(_: &Ctx, a: &Copy<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe {
        let x = match a.x.dtype() {
            DType::F16 => load_as::<f16>(&a.x)?,
            DType::BF16 => load_as::<bf16>(&a.x)?,
            DType::F8E4M3 => load_as::<F8E4M3>(&a.x)?,
            DType::U8 => load_as::<u8>(&a.x)?,
            DType::U32 => load_as::<u32>(&a.x)?,
            DType::I32 => load_as::<i32>(&a.x)?,
            DType::I64 => load_as::<i64>(&a.x)?,
            _ => load(&a.x)?,
        };
        store(&x, &a.out)
    }
}
const COPY: DTypeSet = CAST.union(DTypeSet::of(&[DType::U8, DType::U32, DType::I32, DType::I64]));
candle_kernel!(Copy, Formats::same(COPY), copy);
