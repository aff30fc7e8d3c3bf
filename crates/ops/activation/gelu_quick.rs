//! `activation.gelu_quick`: out = x / (1 + e^(−1.702 x)) (Hendrycks & Gimpel 2016).

super::unary::unary_op! {
    /// GELU's sigmoid form: `x · sigmoid(1.702 x)`.
    GeluQuick = "activation.gelu_quick"; fn gelu_quick, gelu_quick_into;
    |x| x / (1.0 + (-1.702 * x).exp())
}
