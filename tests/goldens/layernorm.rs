//! `layernorm.*`

use super::{close, close_bytes, each, run};
use kernel_registry::ops::layernorm::{
    AddRmsNormQuant, FusedAddRmsNorm, GemmaFusedAddRmsNorm, GemmaRmsNorm, LayerNorm, QkNormRope, RmsNorm,
};

macro_rules! rms {
    ($test:ident, $op:ident) => {
        #[test]
        fn $test() {
            each::<$op>(|c, b| {
                let (mut out, eps) = (c.like("x"), c.number("eps"));
                run!(b, $op { x: c.view("x"), weight: c.view("weight"), out: out.view_mut(), eps });
                close(c, b, &out, c.get("expected"), 2e-6);
            });
        }
    };
}
rms!(rmsnorm, RmsNorm);
rms!(gemma_rmsnorm, GemmaRmsNorm);

macro_rules! fused {
    ($test:ident, $op:ident) => {
        #[test]
        fn $test() {
            each::<$op>(|c, b| {
                let (mut x, mut residual, eps) = (c.copy("x"), c.copy("residual"), c.number("eps"));
                let weight = c.view("weight");
                run!(b, $op { x: x.view_mut(), residual: residual.view_mut(), weight, eps });
                close(c, b, &x, c.get("expected"), 2e-6);
                close(c, b, &residual, c.get("expected_residual"), 1e-7);
            });
        }
    };
}
fused!(fused_add_rmsnorm, FusedAddRmsNorm);
fused!(gemma_fused_add_rmsnorm, GemmaFusedAddRmsNorm);

#[test]
fn add_rmsnorm_quant() {
    each::<AddRmsNormQuant>(|c, b| {
        let (mut residual, eps) = (c.copy("residual"), c.number("eps"));
        let (mut q, mut scales) = (c.like("expected"), c.like("expected_scales"));
        let args = AddRmsNormQuant {
            x: c.view("x"),
            residual: residual.view_mut(),
            weight: c.view("weight"),
            q: q.view_mut(),
            scales: scales.view_mut(),
            eps,
        };
        run!(b, args);
        close(c, b, &residual, c.get("expected_residual"), 1e-7);
        close(c, b, &scales, c.get("expected_scales"), 2e-6);
        close_bytes(c, b, &q, c.get("expected"));
    });
}

#[test]
fn layernorm() {
    each::<LayerNorm>(|c, b| {
        let (mut out, bias, eps) = (c.like("x"), c.maybe("bias"), c.number("eps"));
        run!(b, LayerNorm { x: c.view("x"), weight: c.view("weight"), bias, out: out.view_mut(), eps });
        close(c, b, &out, c.get("expected"), 4e-6);
    });
}

#[test]
fn qk_norm_rope() {
    each::<QkNormRope>(|c, b| {
        let (mut q, mut k) = (c.copy("q"), c.copy("k"));
        let args = QkNormRope {
            q: q.view_mut(),
            k: k.view_mut(),
            q_weight: c.view("q_weight"),
            k_weight: c.view("k_weight"),
            positions: c.view("positions"),
            cos_sin_cache: c.view("cos_sin_cache"),
            eps: c.number("eps"),
            is_neox: c.flag("is_neox"),
        };
        run!(b, args);
        close(c, b, &q, c.get("expected_q"), 4e-6);
        close(c, b, &k, c.get("expected_k"), 4e-6);
    });
}
