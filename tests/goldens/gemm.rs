//! `gemm.*` and `quantization.*`

use super::{Case, close, each, run};
use kernel_registry::ops::gemm::{Fp8ScaledMm, Int8ScaledMm, Linear, LinearGguf};
use kernel_registry::ops::quantization::{
    DequantizeGguf, PerTokenGroupQuant, PerTokenQuantFp8, PerTokenQuantInt8,
};
use kernel_registry::{Backend, DType, Device, Policy, Registry, Tensor};

#[test]
fn linear() {
    each::<Linear>(|c, b| {
        let mut out = c.like("expected");
        let bias = c.maybe("bias");
        run!(b, Linear { x: c.view("x"), weight: c.view("weight"), bias, out: out.view_mut() });
        close(c, b, &out, c.get("expected"), 5e-6);
    });
}

/// All rows, and the first by itself: one row takes another path than several.
fn linear_gguf_of(c: &Case, b: Backend) -> [(Tensor, Tensor); 2] {
    let (mut out, weight) = (c.like("expected"), c.blocks("weight"));
    run!(b, LinearGguf { x: c.view("x"), weight: weight.view(), bias: None, out: out.view_mut() });
    let row = c.view("x").narrow(0, 0, 1).unwrap();
    let mut first = Tensor::zeros(DType::F32, &[1, 6], Device::cpu()).unwrap();
    run!(b, LinearGguf { x: row, weight: weight.view(), bias: None, out: first.view_mut() });
    let expected = c.get("expected").to_f32_vec().unwrap();
    let of_first = Tensor::from_slice(&expected[..6], &[1, 6]).unwrap();
    [(out, Tensor::from_slice(&expected, c.get("expected").shape()).unwrap()), (first, of_first)]
}

#[test]
fn linear_gguf() {
    let registry = Registry::linked().unwrap();
    each::<LinearGguf>(|c, b| {
        let exact = Policy { full_precision: true, ..Policy::default() };
        for (got, expected) in registry.scope(exact, || linear_gguf_of(c, b)).unwrap() {
            close(c, b, &got, &expected, 1e-4);
        }
        // With activations rounded to 8 bits, an error of 0.5 % of what results are like is usual; of six results in a
        // small row one may be eight times that.
        for (got, expected) in linear_gguf_of(c, b) {
            let (got, expected) = (got.to_f64_vec().unwrap(), expected.to_f64_vec().unwrap());
            let like = (expected.iter().map(|e| e * e).sum::<f64>() / expected.len() as f64).sqrt();
            for (g, e) in got.iter().zip(&expected) {
                assert!((g - e).abs() <= 0.04 * like, "{} on {b}: got {g}, expected {e}", c.name);
            }
        }
    });
}

#[test]
fn dequantize_gguf() {
    each::<DequantizeGguf>(|c, b| {
        let (mut out, weight) = (c.like("expected"), c.blocks("weight"));
        run!(b, DequantizeGguf { weight: weight.view(), out: out.view_mut() });
        close(c, b, &out, c.get("expected"), 1e-7);
    });
}

/// Bit for bit: the contract says how each number is rounded.
macro_rules! per_token {
    ($test:ident, $op:ident $(, $field:ident: $value:expr)*) => {
        #[test]
        fn $test() {
            each::<$op>(|c, b| {
                let (mut q, mut scales) = (c.like("expected"), c.like("expected_scales"));
                #[allow(clippy::redundant_closure_call)]
                let args = $op { x: c.view("x"), q: q.view_mut(), scales: scales.view_mut() $(, $field: $value(c))* };
                run!(b, args);
                for (got, name) in [(&q, "expected"), (&scales, "expected_scales")] {
                    assert_eq!(got.to_bytes().unwrap(), c.get(name).to_bytes().unwrap(), "{}: {name} on {b}", c.name);
                }
            });
        }
    };
}
per_token!(per_token_quant_int8, PerTokenQuantInt8);
per_token!(per_token_quant_fp8, PerTokenQuantFp8);
per_token!(per_token_group_quant, PerTokenGroupQuant, group_size: |c: &super::Case| c.size("group_size"), eps: |_| 1e-10);

macro_rules! scaled_mm {
    ($test:ident, $op:ident) => {
        #[test]
        fn $test() {
            each::<$op>(|c, b| {
                let (mut out, bias) = (c.like("expected"), c.maybe("bias"));
                let (scales_a, scales_b) = (c.view("scales_a"), c.view("scales_b"));
                run!(
                    b,
                    $op { a: c.view("a"), b: c.view("b"), scales_a, scales_b, bias, out: out.view_mut() }
                );
                close(c, b, &out, c.get("expected"), 5e-6);
            });
        }
    };
}
scaled_mm!(int8_scaled_mm, Int8ScaledMm);
scaled_mm!(fp8_scaled_mm, Fp8ScaledMm);
