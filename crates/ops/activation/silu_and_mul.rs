//! `activation.silu_and_mul`: out = silu(gate) · up, silu(x) = x / (1 + e⁻ˣ) (SwiGLU, Shazeer 2020).

super::gated::gated_op! {
    /// Gated SiLU: `silu(x[.., ..d]) · x[.., d..]`.
    SiluAndMul = "activation.silu_and_mul"; fn silu_and_mul, silu_and_mul_into;
    |gate| silu(gate)
}

pub(super) fn silu(gate: f64) -> f64 {
    gate / (1.0 + (-gate).exp())
}
