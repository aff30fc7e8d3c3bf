//! A backend for a device that does not exist, as an outside crate would write it: a driver, one kernel, and
//! the one line that declares the crate.

use kernels_core::{
    DriverError,
    Arch, Backend, Ctx, DType, DTypeSet, DeviceId, DeviceKind, Driver, Formats, HOST, Platform, Reason, Requirement,
    RunError, kernel,
};
use kernels_ops::layernorm::RmsNorm;
use std::sync::atomic::{AtomicU32, Ordering};

/// The kind of device.
pub const TOY: DeviceKind = DeviceKind("toy");

/// How many there are. Set it before the first use of the registry.
pub static DEVICES: AtomicU32 = AtomicU32::new(1);

/// The driver's type.
pub struct ToyDriver(());

static DRIVER: ToyDriver = ToyDriver(());

kernels_core::backend! { backends: [Backend("toy")], driver: &DRIVER }

// SAFETY: the toy's memory is the host's, and its kernels run on the host.
unsafe impl Driver for ToyDriver {
    fn kind(&self) -> DeviceKind {
        TOY
    }
    fn name(&self) -> &'static str {
        "toy"
    }
    fn probe(&self) -> Result<Vec<Platform>, Reason> {
        let count = DEVICES.load(Ordering::Relaxed);
        if count == 0 {
            return Err(Reason::RuntimeMissing {
                library: "libtoy".into(),
                tried: vec!["libtoy.so.1".into()],
                fix: "install the toy runtime".into(),
            });
        }
        let platform = |index| Platform {
            id: DeviceId { kind: TOY, index },
            name: "Toy".into(),
            arch: Arch::Other("toy2".into()),
            cores: 1,
            caches: [0; 3],
            memory: 1 << 20,
            warp_width: 4,
            driver_version: "1.0".into(),
        };
        Ok((0..count).map(platform).collect())
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

unsafe fn rmsnorm(_: &Ctx, a: &RmsNorm<'_>) -> Result<(), RunError> {
    let (Some(x), Some(out)) = (a.x.rows(), a.out.rows()) else { return Ok(()) };
    let (xp, wp, op) = (a.x.as_ptr::<f32>(), a.weight.as_ptr::<f32>(), a.out.as_mut_ptr::<f32>());
    for r in 0..x.rows {
        // SAFETY: r and i are inside the rows that the op's checks found; the type is f32 by the spec.
        unsafe {
            let at = |i: usize| f64::from(*xp.add(r * x.stride + i));
            let mean = (0..x.cols).map(|i| at(i) * at(i)).sum::<f64>() / x.cols as f64;
            let scale = 1.0 / (mean + f64::from(a.eps)).sqrt();
            for i in 0..x.cols {
                op.add(r * out.stride + i).write((at(i) * scale * f64::from(*wp.add(i))) as f32);
            }
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: RmsNorm,
    backend: Backend("toy"),
    variant: "toy2",
    formats: Formats::same(DTypeSet::of(&[DType::F32])),
    run: rmsnorm,
    requires: &[Requirement { kind: TOY, arch: kernels_core::ArchBound::Named(&["toy2", "toy3"]) }],
});
