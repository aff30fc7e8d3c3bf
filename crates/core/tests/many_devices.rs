//! More devices than the call path has slots for: what is decided for one is never another's.

mod host_box;

use host_box::{HostBox, platform};
use kernels_core::*;

const KIND: DeviceKind = DeviceKind("many");
const COUNT: u32 = Device::SLOTS as u32 + 8;

static MANY: HostBox<fn() -> Result<Vec<Platform>, Reason>> = HostBox {
    kind: KIND,
    name: "many",
    probe: || {
        let arch = |index| Arch::Other(["even", "odd"][index as usize % 2].into());
        Ok((0..COUNT).map(|index| platform(KIND, index, arch(index))).collect())
    },
};

kernels_core::backend! { backends: [Backend("even"), Backend("odd"), Backend::REFERENCE], driver: &MANY }

kernels_core::op! {
    /// Says which kernel ran.
    pub struct Who = "test.who" {
        /// `[1]` f32: the kernel's number
        writes out,
    }
}

impl Who<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        Ok(Valid { key: Key::of(self.out.dtype()), empty: false })
    }
}

unsafe fn mark<const N: usize>(_: &Ctx, a: &Who<'_>) -> Result<(), RunError> {
    // SAFETY: one element, f32 by the spec.
    unsafe { a.out.as_mut_ptr::<f32>().write(N as f32) };
    Ok(())
}

macro_rules! who {
    ($backend:literal, $number:literal, $requires:expr) => {
        kernel!(unsafe {
            op: Who,
            backend: Backend($backend),
            variant: "",
            formats: Formats::same(DTypeSet::of(&[DType::F32])),
            run: mark::<$number>,
            requires: &[$requires],
        });
    };
}
who!("even", 0, Requirement { kind: KIND, arch: ArchBound::Named(&["even"]) });
who!("odd", 1, Requirement { kind: KIND, arch: ArchBound::Named(&["odd"]) });
who!("reference", 2, Requirement::any(DeviceKind::CPU));

#[test]
fn each_call_is_decided_for_its_own_device() {
    let registry = Registry::linked().unwrap();
    let each = || {
        for round in 0..2 {
            for (index, device) in Device::of_driver(&MANY).unwrap().iter().enumerate() {
                let mut out = Tensor::zeros(DType::F32, &[1], *device).unwrap();
                Who { out: out.view_mut() }.run().unwrap();
                assert_eq!(out.to_f32_vec().unwrap(), [(index % 2) as f32], "many:{index}, round {round}");
            }
        }
    };
    each();
    registry.scope(Policy::default(), each).unwrap();
}
