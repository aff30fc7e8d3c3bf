//! `activation.*`

use super::{close, close_bytes, each, run};
use kernel_registry::ops::activation::{
    GeluAndMul, GeluQuick, GeluTanhAndMul, Relu2, SiluAndMul, SiluAndMulQuant, Softcap,
};

macro_rules! activation {
    ($test:ident, $op:ident) => {
        #[test]
        fn $test() {
            each::<$op>(|c, b| {
                let mut out = c.like("expected");
                run!(b, $op { x: c.view("x"), out: out.view_mut() });
                close(c, b, &out, c.get("expected"), 3e-6);
            });
        }
    };
}
activation!(silu_and_mul, SiluAndMul);
activation!(gelu_and_mul, GeluAndMul);
activation!(gelu_tanh_and_mul, GeluTanhAndMul);
activation!(gelu_quick, GeluQuick);
activation!(relu2, Relu2);

#[test]
fn silu_and_mul_quant() {
    each::<SiluAndMulQuant>(|c, b| {
        let (mut q, mut scales) = (c.like("expected"), c.like("expected_scales"));
        run!(b, SiluAndMulQuant { x: c.view("x"), q: q.view_mut(), scales: scales.view_mut() });
        close(c, b, &scales, c.get("expected_scales"), 3e-6);
        close_bytes(c, b, &q, c.get("expected"));
    });
}

#[test]
fn softcap() {
    each::<Softcap>(|c, b| {
        let mut x = c.copy("x");
        run!(b, Softcap { x: x.view_mut(), cap: c.number("cap") });
        close(c, b, &x, c.get("expected"), 2e-6);
    });
}
