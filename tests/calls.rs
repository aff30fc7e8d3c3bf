//! Wrong arguments get one clear error that names the op and the fix; views cut as a model cuts them work.

use kernel_registry::ops::{activation, gemm, layernorm, sampling};
use kernel_registry::{
    Backend, CallError, DType, Device, Error, Layout, Policy, Recorder, Registry, Tensor, View, ViewMut,
};

fn tensor(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_slice(&(0..n).map(|i| (i % 7) as f32).collect::<Vec<_>>(), shape).unwrap()
}

fn refused(result: kernel_registry::Result<Tensor>) -> String {
    match result.unwrap_err() {
        Error::Call(error) => error.to_string(),
        other => panic!("{other}"),
    }
}

#[test]
fn shapes_types_and_strides() {
    let text = refused(layernorm::rmsnorm(&tensor(&[2, 8]), &tensor(&[7]), 1e-5));
    assert_eq!(text, "layernorm.rmsnorm: shape of \"weight\": [8] expected, [7] given");
    let half = Tensor::from_f32(&[1.0; 8], DType::F16, &[8]).unwrap();
    let text = refused(layernorm::rmsnorm(&tensor(&[2, 8]), &half, 1e-5));
    assert!(text.contains("\"weight\" is f16, the op takes f32 as \"x\" is there"), "{text}");
    let text = refused(activation::silu_and_mul(&tensor(&[2, 7])));
    assert!(text.contains("so it is even; 7 given"), "{text}");
    let (x, w) = (tensor(&[2, 8]), tensor(&[8]));
    // A transposed view, as from_raw can make one.
    let layout = Layout::strided(&[8, 2], &[1, 8]).unwrap();
    // SAFETY: the tensor has 16 elements, which this layout indexes.
    let transposed = unsafe { View::from_raw(x.view().as_ptr(), DType::F32, layout, Device::cpu()) };
    let text = refused(layernorm::rmsnorm(transposed, &w, 1e-5));
    assert!(
        text.contains("the last dimension's stride must be 1") && text.contains("contiguous copy"),
        "{text}"
    );
    let text = refused(gemm::linear(&tensor(&[2, 8]), &tensor(&[4, 9]), None));
    assert!(text.contains("in_features 8 expected, [4, 9] given"), "{text}");
    let text = refused(sampling::softmax(&tensor(&[2, 8]), 0.0));
    assert!(text.contains("temperature is 0, outside above 0"), "{text}");
}

#[test]
fn an_output_that_overlaps_itself_is_refused() {
    let (x, w, mut memory) = (tensor(&[4, 8]), tensor(&[8]), vec![0f32; 32]);
    let layout = Layout::strided(&[4, 8], &[4, 1]).unwrap();
    // SAFETY: the memory is larger than the span; that it overlaps itself is what the test is about.
    let out = unsafe { ViewMut::from_raw(memory.as_mut_ptr().cast(), DType::F32, layout, Device::cpu()) };
    let error = layernorm::rmsnorm_into(&x, &w, 1e-5, out).unwrap_err();
    assert!(matches!(error, Error::Call(CallError::Aliased { .. })), "{error}");
}

#[test]
fn columns_of_a_fused_tensor_work_without_a_copy() {
    let (mut fused, w) = (tensor(&[3, 24]), Tensor::from_slice(&[1f32; 8], &[8]).unwrap());
    let before = fused.to_f32_vec().unwrap();
    let x = tensor(&[3, 8]);
    let (_, rest) = fused.view_mut().split_at(1, 8).unwrap();
    let (middle, _) = rest.split_at(1, 8).unwrap();
    layernorm::rmsnorm_into(&x, &w, 1e-5, middle).unwrap();
    let (after, expected) =
        (fused.to_f32_vec().unwrap(), layernorm::rmsnorm(&x, &w, 1e-5).unwrap().to_f32_vec().unwrap());
    for i in 0..72 {
        let (row, col) = (i / 24, i % 24);
        let wanted = if (8..16).contains(&col) { expected[row * 8 + col - 8] } else { before[i] };
        assert_eq!(after[i], wanted);
    }
}

#[test]
fn no_tokens_return_at_once() {
    let out = layernorm::rmsnorm(&tensor(&[0, 8]), &tensor(&[8]), 1e-5).unwrap();
    assert_eq!(out.shape(), [0, 8]);
    assert_eq!(gemm::linear(&tensor(&[0, 8]), &tensor(&[4, 8]), None).unwrap().shape(), [0, 4]);
}

/// In one test, because the process's policy and the recorder are the process's.
#[test]
fn the_process_can_ask_for_a_backend_and_the_recorder_says_what_ran() {
    let (x, w) = (tensor(&[2, 8]), tensor(&[8]));
    let registry = Registry::linked().unwrap();
    let ran = || {
        let recorder = Recorder::start();
        layernorm::rmsnorm(&x, &w, 1e-5).unwrap();
        let mine =
            recorder.records().into_iter().find(|r| r.op == "layernorm.rmsnorm" && r.tensors[0].2 == [2, 8]);
        mine.unwrap()
    };
    let first = ran();
    assert_eq!(first.tensors.iter().map(|t| t.0).collect::<Vec<_>>(), ["x", "weight", "out"]);
    assert_eq!(first.tensors[1], ("weight", DType::F32, vec![8]));
    let best = match (cfg!(feature = "cpu"), cfg!(feature = "candle")) {
        (true, _) => "simd",
        (false, true) => "candle",
        (false, false) => "reference",
    };
    assert!(first.kernel.starts_with(best), "{first:?}");
    registry.set_policy(Policy::parse("layernorm.*=reference", registry).unwrap()).unwrap();
    let pinned = ran();
    assert!(
        pinned.kernel.starts_with("reference") && pinned.level == kernel_registry::Level::Process,
        "{pinned:?}"
    );
    registry.set_policy(Policy::default()).unwrap();
    assert_eq!(ran().kernel, first.kernel, "live call sites resolve anew");
    // The call's own choice stands above the process's.
    let mut out = tensor(&[2, 8]);
    let args = layernorm::RmsNorm { x: x.view(), weight: w.view(), out: out.view_mut(), eps: 1e-5 };
    let error = args.check().unwrap().run_on(Backend("nobody")).unwrap_err();
    assert!(error.to_string().contains("unknown backend \"nobody\""), "{error}");
}
