//! Every op against values from PyTorch and the `gguf` package (tests/golden, made by scripts/golden/make),
//! on every linked CPU backend.

use kernel_registry::ops::{
    activation::SiluAndMul,
    attention::{Decode, Prefill},
    embeddings::{Embedding, Rope},
    gemm::{Linear, LinearGguf},
    kvcache::ReshapeAndCache,
    layernorm::{FusedAddRmsNorm, RmsNorm},
    quantization::DequantizeGguf,
    sampling::{Sample, Softmax},
};
use kernel_registry::{Backend, DType, Device, Op, Tensor};
use safetensors::SafeTensors;
use serde_json::Value;
use std::collections::HashMap;

/// One case: its tensors by name, and its other arguments.
struct Case {
    name: String,
    tensors: HashMap<String, Tensor>,
    params: Value,
}

impl Case {
    fn get(&self, name: &str) -> &Tensor {
        &self.tensors[name]
    }
    fn copy(&self, name: &str) -> Tensor {
        self.get(name).to_device(Device::cpu()).unwrap()
    }
    fn like(&self, name: &str) -> Tensor {
        Tensor::zeros(self.get(name).dtype(), self.get(name).shape(), Device::cpu()).unwrap()
    }
    fn number(&self, name: &str) -> f32 {
        self.params[name].as_f64().unwrap() as f32
    }
    /// Raw GGUF bytes as a tensor of blocks.
    fn blocks(&self, name: &str) -> Tensor {
        let shape: Vec<usize> =
            self.params["shape"].as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize).collect();
        let dtype = DType::parse(self.params["dtype"].as_str().unwrap()).unwrap();
        Tensor::from_bytes(&self.get(name).to_bytes().unwrap(), dtype, &shape, Device::cpu()).unwrap()
    }
}

fn cases(op: &str) -> Vec<Case> {
    let path = format!("{}/tests/golden/{op}.safetensors", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut cases: HashMap<String, Case> = HashMap::new();
    for (key, params) in header.metadata().as_ref().unwrap() {
        let params = serde_json::from_str(params).unwrap();
        cases.insert(key.clone(), Case { name: key.clone(), tensors: HashMap::new(), params });
    }
    for (key, view) in file.tensors() {
        let (case, name) = key.split_once('/').unwrap();
        let dtype = DType::parse(&format!("{:?}", view.dtype())).unwrap();
        let tensor = Tensor::from_bytes(view.data(), dtype, view.shape(), Device::cpu()).unwrap();
        cases.get_mut(case).unwrap().tensors.insert(name.into(), tensor);
    }
    let mut cases: Vec<_> = cases.into_values().collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(cases.len() >= 3, "{op} has {} golden cases", cases.len());
    cases
}

fn backends() -> Vec<Backend> {
    let mut all = vec![Backend::REFERENCE];
    if cfg!(feature = "cpu") {
        all.push(Backend::SIMD);
    }
    all
}

/// Within `f32_tolerance`, relative and absolute, and one unit in the last place of the tensor's type.
fn close(case: &Case, backend: Backend, got: &Tensor, expected: &Tensor, f32_tolerance: f64) {
    let ulp = match expected.dtype() {
        DType::BF16 => 2f64.powi(-7),
        DType::F16 => 2f64.powi(-10),
        _ => 0.0,
    };
    assert_eq!(got.dtype(), expected.dtype());
    for (i, (g, e)) in got.to_f64_vec().unwrap().iter().zip(expected.to_f64_vec().unwrap()).enumerate() {
        let allowed = f32_tolerance + (f32_tolerance + ulp * 1.01) * e.abs();
        assert!(
            (g - e).abs() <= allowed || *g == e,
            "{} on {backend}, element {i}: got {g}, expected {e}",
            case.name
        );
    }
}

/// Runs `check` for each golden case of `O` on each backend.
fn each<O: Op>(mut check: impl FnMut(&Case, Backend)) {
    for case in cases(O::NAME) {
        backends().into_iter().for_each(|b| check(&case, b));
    }
}

macro_rules! run {
    ($backend:expr, $args:expr) => {
        $args.check().unwrap().run_on($backend).unwrap()
    };
}

#[test]
fn rmsnorm() {
    each::<RmsNorm>(|c, b| {
        let mut out = c.like("x");
        run!(
            b,
            RmsNorm {
                x: c.get("x").view(),
                weight: c.get("weight").view(),
                out: out.view_mut(),
                eps: c.number("eps")
            }
        );
        close(c, b, &out, c.get("expected"), 2e-6);
    });
}

#[test]
fn fused_add_rmsnorm() {
    each::<FusedAddRmsNorm>(|c, b| {
        let (mut x, mut residual) = (c.copy("x"), c.copy("residual"));
        let eps = c.number("eps");
        run!(
            b,
            FusedAddRmsNorm {
                x: x.view_mut(),
                residual: residual.view_mut(),
                weight: c.get("weight").view(),
                eps
            }
        );
        close(c, b, &x, c.get("expected"), 2e-6);
        close(c, b, &residual, c.get("expected_residual"), 1e-7);
    });
}

#[test]
fn silu_and_mul() {
    each::<SiluAndMul>(|c, b| {
        let mut out = c.like("expected");
        run!(b, SiluAndMul { x: c.get("x").view(), out: out.view_mut() });
        close(c, b, &out, c.get("expected"), 2e-6);
    });
}

#[test]
fn embedding() {
    each::<Embedding>(|c, b| {
        let mut out = c.like("expected");
        run!(b, Embedding { ids: c.get("ids").view(), table: c.get("table").view(), out: out.view_mut() });
        close(c, b, &out, c.get("expected"), 0.0);
    });
}

#[test]
fn rope() {
    each::<Rope>(|c, b| {
        let (mut q, mut k) = (c.copy("q"), c.copy("k"));
        let (positions, cos_sin_cache) = (c.get("positions").view(), c.get("cos_sin_cache").view());
        let is_neox = c.params["is_neox"].as_bool().unwrap();
        run!(b, Rope { positions, q: q.view_mut(), k: k.view_mut(), cos_sin_cache, is_neox });
        close(c, b, &q, c.get("expected_q"), 1e-6);
        close(c, b, &k, c.get("expected_k"), 1e-6);
    });
}

#[test]
fn reshape_and_cache() {
    each::<ReshapeAndCache>(|c, b| {
        let (mut keys, mut values) = (c.copy("key_cache"), c.copy("value_cache"));
        let (key, value, slot_mapping) =
            (c.get("key").view(), c.get("value").view(), c.get("slot_mapping").view());
        run!(
            b,
            ReshapeAndCache {
                key,
                value,
                key_cache: keys.view_mut(),
                value_cache: values.view_mut(),
                slot_mapping
            }
        );
        close(c, b, &keys, c.get("expected_keys"), 0.0);
        close(c, b, &values, c.get("expected_values"), 0.0);
    });
}

#[test]
fn decode() {
    each::<Decode>(|c, b| {
        let (mut out, mut lse) = (c.like("expected"), c.like("expected_lse"));
        let (q, key_cache, value_cache) =
            (c.get("q").view(), c.get("key_cache").view(), c.get("value_cache").view());
        let (block_table, seq_lens) = (c.get("block_table").view(), c.get("seq_lens").view());
        let (sm_scale, lse_view) = (c.number("sm_scale"), Some(lse.view_mut()));
        let out_view = out.view_mut();
        run!(
            b,
            Decode {
                q,
                key_cache,
                value_cache,
                block_table,
                seq_lens,
                out: out_view,
                lse: lse_view,
                sm_scale
            }
        );
        close(c, b, &out, c.get("expected"), 5e-6);
        close(c, b, &lse, c.get("expected_lse"), 5e-6);
    });
}

#[test]
fn prefill() {
    each::<Prefill>(|c, b| {
        let (mut out, mut lse) = (c.like("expected"), c.like("expected_lse"));
        run!(
            b,
            Prefill {
                q: c.get("q").view(),
                key_cache: c.get("key_cache").view(),
                value_cache: c.get("value_cache").view(),
                block_table: c.get("block_table").view(),
                seq_lens: c.get("seq_lens").view(),
                qo_indptr: c.get("qo_indptr").view(),
                out: out.view_mut(),
                lse: Some(lse.view_mut()),
                sm_scale: c.number("sm_scale"),
                is_causal: c.params["is_causal"].as_bool().unwrap(),
            }
        );
        close(c, b, &out, c.get("expected"), 5e-6);
        close(c, b, &lse, c.get("expected_lse"), 5e-6);
    });
}

#[test]
fn linear() {
    each::<Linear>(|c, b| {
        let mut out = c.like("expected");
        let bias = Some(c.get("bias").view());
        run!(b, Linear { x: c.get("x").view(), weight: c.get("weight").view(), bias, out: out.view_mut() });
        close(c, b, &out, c.get("expected"), 5e-6);
    });
}

#[test]
fn linear_gguf() {
    each::<LinearGguf>(|c, b| {
        let (mut out, weight) = (c.like("expected"), c.blocks("weight"));
        run!(b, LinearGguf { x: c.get("x").view(), weight: weight.view(), bias: None, out: out.view_mut() });
        close(c, b, &out, c.get("expected"), 1e-4);
        // One row takes another path than several.
        let (row, mut first) = (
            c.get("x").view().narrow(0, 0, 1).unwrap(),
            Tensor::zeros(DType::F32, &[1, 6], Device::cpu()).unwrap(),
        );
        run!(b, LinearGguf { x: row, weight: weight.view(), bias: None, out: first.view_mut() });
        let expected = Tensor::from_slice(&c.get("expected").to_f32_vec().unwrap()[..6], &[1, 6]).unwrap();
        close(c, b, &first, &expected, 1e-4);
    });
}

#[test]
fn dequantize_gguf() {
    each::<DequantizeGguf>(|c, b| {
        let (mut out, weight) = (c.like("expected"), c.blocks("weight"));
        run!(b, DequantizeGguf { weight: weight.view(), out: out.view_mut() });
        close(c, b, &out, c.get("expected"), 1e-7);
    });
}

#[test]
fn softmax() {
    each::<Softmax>(|c, b| {
        let mut probs = c.like("expected");
        run!(
            b,
            Softmax {
                logits: c.get("logits").view(),
                probs: probs.view_mut(),
                temperature: c.number("temperature")
            }
        );
        close(c, b, &probs, c.get("expected"), 2e-6);
    });
}

#[test]
fn sample() {
    each::<Sample>(|c, b| {
        let mut ids = c.like("expected");
        let (temperature, top_p, min_p) = (c.number("temperature"), c.number("top_p"), c.number("min_p"));
        let (top_k, seed) =
            (c.params["top_k"].as_u64().unwrap() as usize, c.params["seed"].as_u64().unwrap());
        run!(
            b,
            Sample {
                logits: c.get("logits").view(),
                ids: ids.view_mut(),
                temperature,
                top_k,
                top_p,
                min_p,
                seed
            }
        );
        close(c, b, &ids, c.get("expected"), 0.0);
    });
}

#[test]
fn every_op_has_golden_values() {
    for op in kernel_registry::Registry::linked().unwrap().ops() {
        assert!(!cases(op.name).is_empty(), "{}", op.name);
    }
}
