//! Gated, picky and impossible kernels of one op, linked: typed calls keep their decisions for it.

use crate::who::{Who, even, mark};
use kernels_core::*;

kernels_core::backend! {
    backends: [Backend("gated"), Backend("picky"), Backend("plain"), Backend("gpu"), Backend::REFERENCE],
    driver: &HOST
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
