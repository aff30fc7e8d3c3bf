//! `quantization.per_token_quant_int8`: each row of activations as i8 with one scale (Yao et al. 2022, ZeroQuant).

super::dynamic::per_token_op! {
    /// Rows as i8, each with one symmetric scale.
    PerTokenQuantInt8 = "quantization.per_token_quant_int8"; fn per_token_quant_int8, per_token_quant_int8_into;
    to I8, "i8"
}
