//! Every op against values from PyTorch and the `gguf` package (tests/golden, made by scripts/golden/make),
//! on every linked CPU backend.

use kernel_registry::{Backend, DType, Device, DeviceKind, Op, Tensor, View};
use safetensors::SafeTensors;
use serde_json::Value;
use std::collections::HashMap;

#[path = "goldens/activation.rs"]
mod activation;
#[path = "goldens/attention.rs"]
mod attention;
#[path = "goldens/elementwise.rs"]
mod elementwise;
#[path = "goldens/embeddings.rs"]
mod embeddings;
#[path = "goldens/gemm.rs"]
mod gemm;
#[path = "goldens/layernorm.rs"]
mod layernorm;
#[path = "goldens/sampling.rs"]
mod sampling;

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
    fn view(&self, name: &str) -> View<'_> {
        self.get(name).view()
    }
    fn maybe(&self, name: &str) -> Option<View<'_>> {
        self.tensors.get(name).map(Tensor::view)
    }
    fn flag(&self, name: &str) -> bool {
        self.params[name].as_bool().unwrap()
    }
    fn size(&self, name: &str) -> usize {
        self.params[name].as_u64().unwrap() as usize
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

/// The linked CPU backends that have a kernel of this op.
fn backends(op: &str) -> Vec<Backend> {
    let kernels = kernel_registry::Registry::linked().unwrap().specs();
    let mut all: Vec<_> =
        kernels.filter(|s| s.op == op && s.kinds().contains(&DeviceKind::CPU)).map(|s| s.backend).collect();
    all.sort();
    all.dedup();
    assert!(all.contains(&Backend::REFERENCE), "{op}");
    assert!(all.contains(&Backend::SIMD) || cfg!(not(feature = "cpu")), "{op}");
    all
}

/// Within `f32_tolerance`, relative and absolute, and one unit in the last place of the tensor's type.
fn close(case: &Case, backend: Backend, got: &Tensor, expected: &Tensor, f32_tolerance: f64) {
    let ulp = match expected.dtype() {
        DType::BF16 => 2f64.powi(-7),
        DType::F16 => 2f64.powi(-10),
        DType::F8E4M3 => 2f64.powi(-3),
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

/// 8-bit values of what a kernel computed: one between two of them may become either.
fn close_bytes(case: &Case, backend: Backend, got: &Tensor, expected: &Tensor) {
    for (i, (g, e)) in got.to_f64_vec().unwrap().iter().zip(expected.to_f64_vec().unwrap()).enumerate() {
        let step = if expected.dtype() == DType::I8 { 1.0 } else { 2f64.powi(-9).max(e.abs() / 8.0) };
        assert!((g - e).abs() <= step, "{} on {backend}, element {i}: got {g}, expected {e}", case.name);
    }
}

/// Runs `check` for each golden case of `O` on each backend.
fn each<O: Op>(mut check: impl FnMut(&Case, Backend)) {
    for case in cases(O::NAME) {
        // candle has no i8.
        let serves = |b: &Backend| *b != Backend::CANDLE || !case.name.contains("-i8");
        backends(O::NAME).into_iter().filter(serves).for_each(|b| check(&case, b));
    }
}

macro_rules! run {
    ($backend:expr, $args:expr) => {
        $args.check().unwrap().run_on($backend).unwrap()
    };
}
pub(crate) use run;

#[test]
fn every_op_has_golden_values() {
    for op in kernel_registry::Registry::linked().unwrap().ops() {
        assert!(!cases(op.name).is_empty(), "{}", op.name);
    }
}
