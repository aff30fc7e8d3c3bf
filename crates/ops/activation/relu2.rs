//! `activation.relu2`: out = max(x, 0)² (So et al. 2021).

super::unary::unary_op! {
    /// Squared ReLU: `max(x, 0)²`.
    Relu2 = "activation.relu2"; fn relu2, relu2_into;
    // f64's `max` would pass over a NaN.
    |x| if x < 0.0 { 0.0 } else { x * x }
}
