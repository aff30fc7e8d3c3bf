//! More devices than the call path has slots for: what is decided for one is never another's.

use kernels_core::*;

const KIND: DeviceKind = DeviceKind("many");
const COUNT: u32 = Device::SLOTS as u32 + 8;

struct Many;

// SAFETY: memory is the host driver's; kernels only write a number.
unsafe impl Driver for Many {
    fn kind(&self) -> DeviceKind {
        KIND
    }
    fn name(&self) -> &'static str {
        "many"
    }
    fn probe(&self) -> Result<Vec<Platform>, Reason> {
        let platform = |index| Platform {
            id: DeviceId { kind: KIND, index },
            arch: Arch::Other(["even", "odd"][index as usize % 2].into()),
            ..Platform::described("portable").unwrap()
        };
        Ok((0..COUNT).map(platform).collect())
    }
    fn alloc(&self, _: u32, bytes: usize, zeroed: bool) -> Result<*mut u8, DriverError> {
        HOST.alloc(0, bytes, zeroed)
    }
    unsafe fn free(&self, _: u32, ptr: *mut u8, bytes: usize) {
        // SAFETY: passed on.
        unsafe { HOST.free(0, ptr, bytes) }
    }
    unsafe fn upload(&self, _: u32, dst: *mut u8, src: &[u8]) -> Result<(), DriverError> {
        // SAFETY: passed on.
        unsafe { HOST.upload(0, dst, src) }
    }
    unsafe fn download(&self, _: u32, dst: &mut [u8], src: *const u8) -> Result<(), DriverError> {
        // SAFETY: passed on.
        unsafe { HOST.download(0, dst, src) }
    }
    fn synchronize(&self, _: u32) -> Result<(), DriverError> {
        Ok(())
    }
}

static MANY: Many = Many;

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
