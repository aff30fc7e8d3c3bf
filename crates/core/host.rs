//! The host processor as a device: its driver lives here, because the reference kernels need it
//! whatever backends are linked.

use crate::device::Driver;
use crate::error::DriverError;
use crate::names::{DeviceId, DeviceKind};
use crate::platform::{Arch, Platform, detect_cpu};
use crate::reason::Reason;
use std::alloc::{Layout, alloc, dealloc};

/// The host driver, for the manifest of a CPU backend.
pub static HOST: Host = Host(());

/// The host driver's type.
pub struct Host(());

/// One cache line, and one AVX-512 register.
const ALIGN: usize = 64;

/// Of x86-64, and of Arm with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

// SAFETY: features are detected on this processor and can only be taken away; memory comes from the
// global allocator with its [`align`], at least ALIGN.
unsafe impl Driver for Host {
    fn kind(&self) -> DeviceKind {
        DeviceKind::CPU
    }

    fn name(&self) -> &'static str {
        "host"
    }

    fn probe(&self) -> Result<Vec<Platform>, Reason> {
        let found = detect_cpu();
        // A word that is not understood keeps every feature; `Registry::linked` reports it before any call.
        let features = match std::env::var("KERNELS_CPU_FEATURES") {
            Ok(text) => found.restricted(&text).unwrap_or(found),
            Err(_) => found,
        };
        Ok(vec![Platform {
            id: DeviceId::CPU,
            name: cpu_name(),
            arch: Arch::Cpu(features),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get()) as u32,
            caches: caches(),
            memory: memory(),
            warp_width: 1,
            driver_version: std::env::consts::ARCH.into(),
        }])
    }

    fn alloc(&self, _device: u32, bytes: usize, zeroed: bool) -> Result<*mut u8, DriverError> {
        if bytes == 0 {
            return Ok(std::ptr::without_provenance_mut(ALIGN));
        }
        let layout =
            Layout::from_size_align(bytes, align(bytes)).map_err(|e| DriverError::Words(e.to_string()))?;
        // SAFETY: the size is not zero; the memory has it.
        unsafe {
            let ptr = alloc(layout);
            if ptr.is_null() {
                return Err(format!("{bytes} bytes of host memory refused").into());
            }
            // Before any of it is written: a page has its size from then on.
            ask_for_huge_pages(ptr, bytes);
            if zeroed {
                ptr.write_bytes(0, bytes);
            }
            Ok(ptr)
        }
    }

    unsafe fn free(&self, _device: u32, ptr: *mut u8, bytes: usize) {
        if bytes > 0 {
            // SAFETY: by contract, allocated above with this size.
            unsafe { dealloc(ptr, Layout::from_size_align_unchecked(bytes, align(bytes))) }
        }
    }

    unsafe fn upload(&self, _device: u32, dst: *mut u8, src: &[u8]) -> Result<(), DriverError> {
        // SAFETY: by contract; a fresh destination cannot overlap a borrowed source.
        unsafe { dst.copy_from_nonoverlapping(src.as_ptr(), src.len()) };
        Ok(())
    }

    unsafe fn download(&self, _device: u32, dst: &mut [u8], src: *const u8) -> Result<(), DriverError> {
        // SAFETY: by contract; a mutably borrowed destination cannot overlap the source.
        unsafe { dst.as_mut_ptr().copy_from_nonoverlapping(src, dst.len()) };
        Ok(())
    }

    fn synchronize(&self, _device: u32) -> Result<(), DriverError> {
        Ok(())
    }
}

/// That of so many bytes: what has a huge page begins with one.
fn align(bytes: usize) -> usize {
    if bytes >= HUGE_PAGE { HUGE_PAGE } else { ALIGN }
}

/// Where Linux gives huge pages to those who ask. A weight is read once in a call, and each of its small pages costs a
/// walk through the tables, two in a virtual machine.
///
/// # Safety
/// An allocation of so many bytes, of which none was written.
unsafe fn ask_for_huge_pages(ptr: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes >= HUGE_PAGE {
        // SAFETY: whole pages of the allocation, whose contents the advice does not change. A kernel without huge pages
        // refuses it, and small ones do.
        unsafe { libc::madvise(ptr.cast(), bytes / HUGE_PAGE * HUGE_PAGE, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (ptr, bytes);
}

fn cpu_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.into(), |(_, n)| n.trim().into())
}

/// As the kernel lists them: `sysconf` multiplies an L3 by processors that are not there in some virtual machines.
fn caches() -> [usize; 3] {
    let mut sizes = [0; 3];
    // A level of two kinds has two entries, and none has more levels than these.
    for index in 0..8 {
        let of =
            |what| std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}"));
        let (Ok(level), Ok(kind), Ok(size)) = (of("level"), of("type"), of("size")) else { break };
        let level = level.trim().parse().ok().and_then(|l: usize| sizes.get_mut(l.wrapping_sub(1)));
        if let (Some(of_level), "Data" | "Unified") = (level, kind.trim()) {
            *of_level = bytes(size.trim());
        }
    }
    sizes
}

/// Of `48K`, `32M` or a plain number; 0 of anything else.
fn bytes(size: &str) -> usize {
    let (number, unit) = match size.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => size.strip_suffix('M').map_or((size, 1), |number| (number, 1 << 20)),
    };
    number.parse().map_or(0, |n: usize| n * unit)
}

fn memory() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = info
        .lines()
        .find_map(|l| l.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.map_or(0, |k: u64| k * 1024)
}

#[cfg(test)]
mod tests {
    use super::{ALIGN, HOST, HUGE_PAGE, bytes};
    use crate::device::Driver;

    #[test]
    fn large_memory_begins_with_a_huge_page_and_is_zeroed_on_demand() {
        for size in [1, HUGE_PAGE - 1, HUGE_PAGE, 3 * HUGE_PAGE + 5] {
            let ptr = HOST.alloc(0, size, true).expect("memory");
            assert!((ptr as usize).is_multiple_of(if size < HUGE_PAGE { ALIGN } else { HUGE_PAGE }));
            // SAFETY: so many bytes, zeroed, freed once.
            unsafe {
                assert!([0, size / 2, size - 1].map(|i| *ptr.add(i)) == [0; 3]);
                HOST.free(0, ptr, size);
            }
        }
    }

    #[test]
    fn sizes_of_caches_are_read() {
        assert_eq!(["48K", "32M", "512", "", "L2"].map(bytes), [48 << 10, 32 << 20, 512, 0, 0]);
    }
}
