//! Whether tiles may be used: AMX has registers that Linux hands to a process that asks for them.

use crate::platform::CpuFeatures;
use std::arch::x86_64::__cpuid_count;

/// The kinds of tile products that the processor has and the system allows. The first call asks the system, for the
/// whole process.
pub(crate) fn detect() -> CpuFeatures {
    // CPUID 7.0, EDX: bits 22, 24 and 25 are AMX-BF16, AMX-TILE and AMX-INT8 (Intel SDM, volume 2A).
    let edx = __cpuid_count(7, 0).edx;
    let has = |bit: u32| edx & 1 << bit != 0;
    if !has(24) || !allowed() {
        return CpuFeatures::NONE;
    }
    let feature = |bit, feature| if has(bit) { feature } else { CpuFeatures::NONE };
    feature(22, CpuFeatures::AMX_BF16).union(feature(25, CpuFeatures::AMX_INT8))
}

/// Asks for the tiles' registers (Linux, Documentation/arch/x86/xstate.rst).
#[cfg(target_os = "linux")]
fn allowed() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_int = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: the call reads its two numbers; a system that does not know it answers with an error.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> bool {
    false
}
