//! A typed call on checked arguments allocates nothing once it has resolved.

use kernel_registry::ops::layernorm::{FusedAddRmsNorm, RmsNorm};
use kernel_registry::{DType, Device, Tensor};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(DType::F32, shape, Device::cpu()).unwrap()
}

#[test]
fn calls_do_not_allocate() {
    // The reference kernel of the fused op keeps a row in a Vec; with nothing but references there is no claim.
    if cfg!(not(feature = "cpu")) {
        return;
    }
    let (mut x, mut residual, weight, mut out) =
        (zeros(&[1, 4096]), zeros(&[1, 4096]), zeros(&[4096]), zeros(&[1, 4096]));
    let before_any = COUNT.get();
    {
        let plain = RmsNorm { x: residual.view(), weight: weight.view(), out: out.view_mut(), eps: 1e-5 };
        let mut plain = plain.check().unwrap();
        plain.run().unwrap();
        let before = COUNT.get();
        (0..1000).for_each(|_| plain.run().unwrap());
        assert_eq!(COUNT.get() - before, 0, "rmsnorm");
    }
    let fused =
        FusedAddRmsNorm { x: x.view_mut(), residual: residual.view_mut(), weight: weight.view(), eps: 1e-5 };
    let mut fused = fused.check().unwrap();
    fused.run().unwrap();
    let before = COUNT.get();
    (0..1000).for_each(|_| fused.run().unwrap());
    assert_eq!(COUNT.get() - before, 0, "fused_add_rmsnorm, which takes scratch memory");
    assert!(before > before_any, "the counter counts");
}
