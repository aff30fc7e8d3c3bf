//! Every op's kernel, for a backend to register: the one list.

/// Registers all portable kernels for a runtime: `register!(crate::Nvrtc)`. The crate's manifest names the backend.
#[macro_export]
macro_rules! register {
    ($runtime:ty) => {
        use $crate::kernels_core::{DType, DTypeSet, Formats};

        const FLOAT: Formats = Formats::same(DTypeSet::FLOAT);
        const CACHE: Formats = Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::EIGHT_BIT));
        const WEIGHT: Formats = Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::GGUF));
        const BLOCKS: Formats = Formats::mixed(DTypeSet::FLOAT, DTypeSet::GGUF);
        const QUANTISED: Formats = Formats::mixed(DTypeSet::FLOAT, DTypeSet::EIGHT_BIT);
        const VALUES: DTypeSet = DTypeSet::FLOAT.union(DTypeSet::EIGHT_BIT);
        const FP8: DTypeSet = DTypeSet::of(&[DType::F8E4M3]);
        const INT8: DTypeSet = DTypeSet::of(&[DType::I8]);

        $crate::register!(@group $runtime, activation;
            SiluAndMul: gated::silu_and_mul, FLOAT;
            GeluAndMul: gated::gelu_and_mul, FLOAT;
            GeluTanhAndMul: gated::gelu_tanh_and_mul, FLOAT;
            GeluQuick: unary::gelu_quick, FLOAT;
            Relu2: unary::relu2, FLOAT;
            Softcap: unary::softcap, FLOAT;
            SiluAndMulQuant: silu_and_mul_quant::silu_and_mul_quant, QUANTISED;
        );
        $crate::register!(@group $runtime, attention;
            Decode: paged::decode, CACHE, workspace parts, gate gate;
            Prefill: paged::prefill, CACHE, gate gate;
            MergeState: merge_state::merge_state, FLOAT;
        );
        $crate::register!(@group $runtime, elementwise;
            Add: elementwise::add, FLOAT;
            Mul: elementwise::mul, FLOAT;
            Scale: elementwise::scale, FLOAT;
            Cast: elementwise::cast, Formats::mixed(DTypeSet::FLOAT.union(FP8), VALUES);
            Copy: elementwise::copy, Formats::same(DTypeSet::PLAIN);
        );
        $crate::register!(@group $runtime, embeddings;
            Embedding: embedding::embedding, WEIGHT;
            Rope: rope::rope, FLOAT;
        );
        $crate::register!(@group $runtime, gemm;
            Linear: product::linear, Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT);
            LinearGguf: product::linear_gguf, WEIGHT;
            LinearGguf: gguf_int8::linear_gguf, BLOCKS, workspace rounded, variant "int8" { priority: 1, quantises_activations: true };
            Fp8ScaledMm: scaled::fp8_scaled_mm, Formats::mixed(DTypeSet::FLOAT, FP8);
            Int8ScaledMm: scaled::int8_scaled_mm, Formats::mixed(DTypeSet::FLOAT, INT8);
        );
        $crate::register!(@group $runtime, kvcache;
            ReshapeAndCache: reshape_and_cache::reshape_and_cache, CACHE;
            RopeAndCache: rope_and_cache::rope_and_cache, CACHE;
            QkNormRopeStore: rope_and_cache::qk_norm_rope_store, CACHE;
        );
        $crate::register!(@group $runtime, layernorm;
            RmsNorm: rms::rmsnorm, FLOAT;
            GemmaRmsNorm: rms::gemma_rmsnorm, FLOAT;
            FusedAddRmsNorm: fused_add::fused_add_rmsnorm, FLOAT;
            GemmaFusedAddRmsNorm: fused_add::gemma_fused_add_rmsnorm, FLOAT;
            LayerNorm: layernorm::layernorm, FLOAT;
            QkNormRope: rope::qk_norm_rope, FLOAT;
            AddRmsNormQuant: add_rmsnorm_quant::add_rmsnorm_quant, QUANTISED;
        );
        $crate::register!(@group $runtime, quantization;
            DequantizeGguf: dequantize::dequantize_gguf, WEIGHT;
            PerTokenQuantFp8: dynamic::per_token_quant_fp8, Formats::mixed(DTypeSet::FLOAT, FP8);
            PerTokenQuantInt8: dynamic::per_token_quant_int8, Formats::mixed(DTypeSet::FLOAT, INT8);
            PerTokenGroupQuant: dynamic::per_token_group_quant, QUANTISED;
        );
        $crate::register!(@group $runtime, sampling;
            ApplyMask: apply_mask::apply_mask, FLOAT;
            Penalties: penalties::penalties, FLOAT, workspace counts;
            Softmax: softmax::softmax, FLOAT;
            Sample: sample::sample, FLOAT;
            TopKRenorm: renorm::top_k_renorm, Formats::same(DTypeSet::of(&[DType::F32]));
            TopPRenorm: renorm::top_p_renorm, Formats::same(DTypeSet::of(&[DType::F32]));
        );
    };
    (@group $runtime:ty, $group:ident; $($op:ident: $module:ident::$run:ident, $formats:expr $(, workspace $workspace:ident)? $(, gate $gate:ident)? $(, variant $variant:literal { $($field:ident: $value:expr),+ })?;)+) => { $(
        const _: () = {
            use $crate::$group::$module as unit;
            use $crate::kernels_ops::$group::$op;
            $crate::kernels_core::kernel!(unsafe {
                op: $op,
                backend: <$runtime as $crate::Runtime>::BACKEND,
                variant: concat!($($variant)?),
                formats: $formats,
                run: unit::$run::<$runtime>
                $(; workspace: unit::$workspace)?,
                $(gate: Some(unit::$gate),)?
                $($($field: $value,)+)?
                ready: Some(|platform| $crate::ready::<$runtime>(platform, unit::SOURCES)),
            });
        };
    )+ };
}
