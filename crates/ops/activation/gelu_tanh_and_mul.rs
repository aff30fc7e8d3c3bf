//! `activation.gelu_tanh_and_mul`: out = gelu(gate) · up with GELU's tanh form, 0.5 x (1 + tanh(√(2/π)
//! (x + 0.044715 x³))) = x / (1 + e^(−2 √(2/π) (x + 0.044715 x³))) (Hendrycks & Gimpel 2016).

super::gated::gated_op! {
    /// Gated GELU in its tanh form: `gelu_tanh(x[.., ..d]) · x[.., d..]`.
    GeluTanhAndMul = "activation.gelu_tanh_and_mul"; fn gelu_tanh_and_mul, gelu_tanh_and_mul_into;
    |gate| {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044715 * gate.powi(3));
        gate / (1.0 + (-2.0 * inner).exp())
    }
}
