//! `gemm.fp8_scaled_mm`: product of f8_e4m3 matrices with a scale for each row of both (W8A8; Micikevicius et al.
//! 2022).

super::scaled::scaled_op! {
    /// Product of f8_e4m3 matrices with a scale for each row of both; sums in f32.
    Fp8ScaledMm = "gemm.fp8_scaled_mm"; fn fp8_scaled_mm, fp8_scaled_mm_into;
    of F8E4M3, "f8_e4m3"
}
