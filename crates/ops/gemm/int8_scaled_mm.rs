//! `gemm.int8_scaled_mm`: product of i8 matrices with a scale for each row of both (W8A8; Xiao et al. 2022,
//! SmoothQuant).

super::scaled::scaled_op! {
    /// Product of i8 matrices with a scale for each row of both; sums in i32, exact.
    Int8ScaledMm = "gemm.int8_scaled_mm"; fn int8_scaled_mm, int8_scaled_mm_into;
    of I8, "i8"
}
