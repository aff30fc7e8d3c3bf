//! A backend of two kernels, each in a module, so in a codegen unit, of its own.

use kernels_core::Backend;

kernels_core::backend! { backends: [Backend("alpha")], driver: &kernels_core::HOST }

mod narrow {
    use kernels_core::*;
    use ops_toy::{Double, double};
    kernel!(unsafe {
        op: Double,
        backend: Backend("alpha"),
        variant: "narrow",
        formats: Formats::same(DTypeSet::of(&[DType::F32])),
        run: double,
        requires: &[Requirement::cpu(CpuFeatures::AVX2)],
    });
}

mod wide {
    use kernels_core::*;
    use ops_toy::{Double, double};
    kernel!(unsafe {
        op: Double,
        backend: Backend("alpha"),
        variant: "wide",
        formats: Formats::same(DTypeSet::of(&[DType::F32])),
        run: double,
    });
}
