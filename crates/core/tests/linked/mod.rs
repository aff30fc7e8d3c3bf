//! An op with gated, picky and impossible kernels, linked: typed calls keep their decisions for it.

use kernels_core::*;

kernels_core::backend! {
    backends: [Backend("gated"), Backend("picky"), Backend("plain"), Backend("gpu"), Backend::REFERENCE],
    driver: &HOST
}

kernels_core::op! {
    /// Says which kernel ran.
    pub struct Who = "test.who" {
        /// `[n]`
        reads x,
        /// `[1]` i32: the kernel's number
        writes out,
        /// The shape fact.
        value fact: usize,
    }
}

impl Who<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        Ok(Valid { key: Key::of(self.x.dtype()).with_fact(self.fact), empty: false })
    }
}

unsafe fn mark<const N: usize>(_: &Ctx, a: &Who<'_>) -> Result<(), RunError> {
    // SAFETY: one element of four bytes.
    unsafe { a.out.as_mut_ptr::<i32>().write(N as i32) };
    Ok(())
}

fn even(key: &Key) -> Result<(), Reason> {
    match key.fact % 2 {
        0 => Ok(()),
        _ => Err(Reason::Shape { detail: format!("takes an even size, not {}", key.fact) }),
    }
}

macro_rules! who {
    ($backend:literal, $number:literal, $types:expr $(, $field:ident : $value:expr)*) => {
        kernel!(unsafe {
            op: Who,
            backend: Backend($backend),
            variant: "",
            formats: Formats::same($types),
            run: mark::<$number>
            $(, $field: $value)*
        });
    };
}
who!("reference", 0, DTypeSet::FLOAT);
who!("gated", 1, DTypeSet::FLOAT, priority: 2, gate: Some(even));
who!("picky", 2, DTypeSet::of(&[DType::F32]), priority: 1, deterministic: false);
who!("plain", 3, DTypeSet::FLOAT);
who!("gpu", 4, DTypeSet::FLOAT, priority: 9, requires: &[Requirement::any(DeviceKind::CUDA)]);

/// The backend with each number.
pub const BACKENDS: [&str; 5] = ["reference", "gated", "picky", "plain", "gpu"];

/// A typed call of that class: the number of the kernel that ran.
pub fn call(dtype: DType, fact: usize) -> Result<usize> {
    let x = Tensor::zeros(dtype, &[1], Device::cpu())?;
    let mut out = [-1i32];
    Who { x: x.view(), out: ViewMut::from_slice(&mut out, &[1]).unwrap(), fact }.run()?;
    Ok(out[0] as usize)
}
