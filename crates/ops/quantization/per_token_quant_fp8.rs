//! `quantization.per_token_quant_fp8`: each row of activations as f8_e4m3 with one scale (Micikevicius et al. 2022).

super::dynamic::per_token_op! {
    /// Rows as f8_e4m3, each with one scale.
    PerTokenQuantFp8 = "quantization.per_token_quant_fp8"; fn per_token_quant_fp8, per_token_quant_fp8_into;
    to F8E4M3, "f8_e4m3"
}
