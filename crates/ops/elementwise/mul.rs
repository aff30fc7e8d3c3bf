//! `elementwise.mul`: out = a · b.

super::binary::binary_op! {
    /// Product of two tensors of one shape, over any strides.
    Mul = "elementwise.mul"; fn mul, mul_into; *
}
