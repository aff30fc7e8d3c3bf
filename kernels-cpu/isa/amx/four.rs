//! Four products apart: of groups that have a scale each.

use super::{STEP, TILE, Tiles};
use std::arch::asm;

/// Four tiles of weights times four of x, apart: `[16 weight rows, 16 rows of x]` in i32, four times.
///
/// With steps of 32 bytes, weights of 16 rows of 32 bytes follow each other; with steps of 16 two of them are the
/// halves of such rows.
///
/// # Safety
/// AMX-INT8; `tiles` are configured on this thread. `weights` and `x` are valid for four steps, `sums` for [`super::SUMS`].
#[inline(always)]
pub unsafe fn four<const BYTES: u16>(_: &Tiles<BYTES>, weights: *const u8, x: *const u8, sums: *mut u8) {
    macro_rules! four {
        ($w0:literal, $w1:literal, $w2:literal, $w3:literal, $x:literal) => {
            asm!(
                concat!("tileloadd tmm4, [{w} + {row} + ", $w0, "]"),
                "tileloadd tmm6, [{x} + {stride}]",
                "tilezero tmm0",
                "tdpbssd tmm0, tmm4, tmm6",
                concat!("tileloadd tmm5, [{w} + {row} + ", $w1, "]"),
                concat!("tileloadd tmm7, [{x} + {stride} + ", $x, "]"),
                "tilezero tmm1",
                "tdpbssd tmm1, tmm5, tmm7",
                concat!("tileloadd tmm4, [{w} + {row} + ", $w2, "]"),
                concat!("tileloadd tmm6, [{x} + {stride} + 2*", $x, "]"),
                "tilezero tmm2",
                "tdpbssd tmm2, tmm4, tmm6",
                concat!("tileloadd tmm5, [{w} + {row} + ", $w3, "]"),
                concat!("tileloadd tmm7, [{x} + {stride} + 3*", $x, "]"),
                "tilezero tmm3",
                "tdpbssd tmm3, tmm5, tmm7",
                "tilestored [{sums} + {stride}], tmm0",
                "tilestored [{sums} + {stride} + {TILE}], tmm1",
                "tilestored [{sums} + {stride} + 2*{TILE}], tmm2",
                "tilestored [{sums} + {stride} + 3*{TILE}], tmm3",
                w = in(reg) weights,
                row = in(reg) 32_usize,
                x = in(reg) x,
                stride = in(reg) STEP,
                sums = in(reg) sums,
                TILE = const TILE,
                options(nostack, preserves_flags),
            )
        };
    }
    // SAFETY: by contract. Nothing but this block uses tiles between a load and a store.
    unsafe {
        match BYTES {
            32 => four!(0, 512, 1024, 1536, 512),
            _ => four!(0, 16, 512, 528, 256),
        }
    }
}
