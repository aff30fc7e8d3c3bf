//! `activation.*`

use super::{close, each, run};
use kernel_registry::ops::activation::{GeluAndMul, GeluQuick, GeluTanhAndMul, Relu2, SiluAndMul, Softcap};

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
fn softcap() {
    each::<Softcap>(|c, b| {
        let mut x = c.copy("x");
        run!(b, Softcap { x: x.view_mut(), cap: c.number("cap") });
        close(c, b, &x, c.get("expected"), 2e-6);
    });
}
