//! `elementwise.add`: out = a + b.

super::binary::binary_op! {
    /// Sum of two tensors of one shape, over any strides.
    Add = "elementwise.add"; fn add, add_into; +
}
