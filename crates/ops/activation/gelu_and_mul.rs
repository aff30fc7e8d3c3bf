//! `activation.gelu_and_mul`: out = gelu(gate) · up, gelu(x) = x · Φ(x) (Hendrycks & Gimpel 2016; GEGLU,
//! Shazeer 2020).

super::gated::gated_op! {
    /// Gated GELU, exact: `gelu(x[.., ..d]) · x[.., d..]`.
    GeluAndMul = "activation.gelu_and_mul"; fn gelu_and_mul, gelu_and_mul_into;
    |gate| gate * 0.5 * libm::erfc(-gate / std::f64::consts::SQRT_2)
}
