//! The ops over candle tensors: each function gives what the op gives on its own tensors, bit for bit, and wrong
//! tensors get one clear error.

use kernel_registry::candle::candle_core::quantized::{GgmlDType, QTensor};
use kernel_registry::candle::candle_core::{DType, Device, IndexOp, Result, Tensor, Var};
use kernel_registry::candle::{
    activation, attention, elementwise, embeddings, gemm, kvcache, layernorm, quantization, sampling,
};
use kernel_registry::{self as kr, ops};

const CPU: &Device = &Device::Cpu;

/// Seeded values.
fn values(seed: u64, shape: &[usize]) -> Vec<f32> {
    ops::data::Rng::new(seed).normals(shape.iter().product(), 1.0)
}

/// The same values for candle and for us.
fn both(seed: u64, dtype: DType, shape: &[usize]) -> (Tensor, kr::Tensor) {
    let values = values(seed, shape);
    let ours = kr::DType::parse(dtype.as_str()).unwrap_or(kr::DType::F8E4M3);
    let theirs = Tensor::from_vec(values.clone(), shape, CPU).unwrap().to_dtype(dtype).unwrap();
    (theirs, kr::Tensor::from_f32(&values, ours, shape).unwrap())
}

fn ints(values: &[i64], shape: &[usize]) -> (Tensor, kr::Tensor) {
    (Tensor::from_vec(values.to_vec(), shape, CPU).unwrap(), kr::Tensor::from_slice(values, shape).unwrap())
}

fn f64s(t: &Tensor) -> Vec<f64> {
    let t = t.flatten_all().unwrap();
    match t.dtype() {
        DType::I32 => t.to_vec1::<i32>().unwrap().into_iter().map(f64::from).collect(),
        // Not to f64 at once: candle's own conversion of f8 to f64 never ends.
        DType::F8E4M3 => t.to_dtype(DType::F32).unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap(),
        _ => t.to_dtype(DType::F64).unwrap().to_vec1().unwrap(),
    }
}

/// Shape and values are equal; an i8 is a byte in candle.
fn same(got: &Tensor, expected: &kr::Tensor) {
    assert_eq!(got.dims(), expected.shape());
    let mut values = expected.to_f64_vec().unwrap();
    if expected.dtype() == kr::DType::I8 {
        values.iter_mut().for_each(|v| *v = f64::from(*v as i8 as u8));
    }
    assert_eq!(f64s(got), values);
}

fn each(pairs: &[(&Tensor, &kr::Tensor)]) {
    pairs.iter().for_each(|(got, expected)| same(got, expected));
}

fn says<T>(result: Result<T>, words: &[&str]) {
    let text = result.err().expect("an error").to_string();
    words.iter().for_each(|w| assert!(text.contains(w), "{w:?} is not in: {text}"));
}

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

#[test]
fn norms() {
    for dtype in FLOATS {
        let ((x, x_), (r, r_), (w, w_)) =
            (both(1, dtype, &[3, 40]), both(2, dtype, &[3, 40]), both(3, dtype, &[40]));
        same(&layernorm::rmsnorm(&x, &w, 1e-5).unwrap(), &ops::layernorm::rmsnorm(&x_, &w_, 1e-5).unwrap());
        same(
            &layernorm::gemma_rmsnorm(&x, &w, 1e-5).unwrap(),
            &ops::layernorm::gemma_rmsnorm(&x_, &w_, 1e-5).unwrap(),
        );
        same(
            &layernorm::layernorm(&x, &w, Some(&w), 1e-5).unwrap(),
            &ops::layernorm::layernorm(&x_, &w_, Some(w_.view()), 1e-5).unwrap(),
        );
        same(
            &layernorm::layernorm(&x, &w, None, 1e-5).unwrap(),
            &ops::layernorm::layernorm(&x_, &w_, None, 1e-5).unwrap(),
        );
        for gemma in [false, true] {
            let [mut y_, mut s_] = [&x_, &r_].map(|t| ops::elementwise::copy(t).unwrap());
            let (y, s) = match gemma {
                false => {
                    ops::layernorm::fused_add_rmsnorm(&mut y_, &mut s_, &w_, 1e-5).unwrap();
                    layernorm::fused_add_rmsnorm(&x, &r, &w, 1e-5).unwrap()
                }
                true => {
                    ops::layernorm::gemma_fused_add_rmsnorm(&mut y_, &mut s_, &w_, 1e-5).unwrap();
                    layernorm::gemma_fused_add_rmsnorm(&x, &r, &w, 1e-5).unwrap()
                }
            };
            each(&[(&y, &y_), (&s, &s_), (&x, &x_)]);
            let [y, s] = [&x, &r].map(|t| t.copy().unwrap());
            match gemma {
                false => layernorm::fused_add_rmsnorm_inplace(&y, &s, &w, 1e-5).unwrap(),
                true => layernorm::gemma_fused_add_rmsnorm_inplace(&y, &s, &w, 1e-5).unwrap(),
            }
            each(&[(&y, &y_), (&s, &s_)]);
        }
    }
}

#[test]
fn activations() {
    type Theirs = fn(&Tensor) -> Result<Tensor>;
    type Ours = fn(&kr::Tensor) -> kr::Result<kr::Tensor>;
    let pairs: [(Theirs, Ours); 5] = [
        (activation::silu_and_mul, |x| ops::activation::silu_and_mul(x)),
        (activation::gelu_and_mul, |x| ops::activation::gelu_and_mul(x)),
        (activation::gelu_tanh_and_mul, |x| ops::activation::gelu_tanh_and_mul(x)),
        (activation::gelu_quick, |x| ops::activation::gelu_quick(x)),
        (activation::relu2, |x| ops::activation::relu2(x)),
    ];
    for dtype in FLOATS {
        let (x, x_) = both(4, dtype, &[2, 3, 34]);
        for (theirs, ours) in pairs {
            same(&theirs(&x).unwrap(), &ours(&x_).unwrap());
        }
        let mut capped = ops::elementwise::copy(&x_).unwrap();
        ops::activation::softcap(&mut capped, 0.5).unwrap();
        same(&activation::softcap(&x, 0.5).unwrap(), &capped);
        same(&x, &x_);
        activation::softcap_inplace(&x, 0.5).unwrap();
        same(&x, &capped);
    }
}

#[test]
fn elementwise_over_any_strides() {
    for dtype in FLOATS {
        let ((a, a_), (b, b_)) = (both(5, dtype, &[4, 6]), both(6, dtype, &[6, 4]));
        let (at, a_t) = (a.t().unwrap(), a_.view().transpose(0, 1).unwrap());
        same(&elementwise::add(&at, &b).unwrap(), &ops::elementwise::add(a_t, &b_).unwrap());
        same(&elementwise::mul(&at, &b).unwrap(), &ops::elementwise::mul(a_t, &b_).unwrap());
        same(&elementwise::scale(&at, 2.5).unwrap(), &ops::elementwise::scale(a_t, 2.5).unwrap());
        let copy = elementwise::copy(&at).unwrap();
        assert!(copy.is_contiguous());
        same(&copy, &ops::elementwise::copy(a_t).unwrap());
        same(
            &elementwise::cast(&at, DType::F32).unwrap(),
            &ops::elementwise::cast(a_t, kr::DType::F32).unwrap(),
        );
        let row = a.i(0..1).unwrap().broadcast_as((5, 6)).unwrap();
        let wide = a_.view().narrow(0, 0, 1).unwrap().broadcast_to(&[5, 6]).unwrap();
        same(&elementwise::add(&row, &row).unwrap(), &ops::elementwise::add(wide, wide).unwrap());
    }
}

#[test]
fn embeddings_and_rope() {
    let (ids, ids_) = ints(&[2, 0, 6], &[3]);
    let ((table, table_), (cache, cache_)) = (
        both(7, DType::BF16, &[7, 32]),
        (embeddings::cos_sin_cache(9, 16, 1e4).unwrap(), ops::embeddings::cos_sin_cache(9, 16, 1e4).unwrap()),
    );
    same(&cache, &cache_);
    same(
        &embeddings::embedding(&ids, &table).unwrap(),
        &ops::embeddings::embedding(&ids_, &table_, kr::DType::BF16).unwrap(),
    );
    says(embeddings::embedding(&Tensor::new(&[7i64], CPU).unwrap(), &table), &["embeddings.embedding", "7"]);
    let quantised = QTensor::quantize(&table.to_dtype(DType::F32).unwrap(), GgmlDType::Q8_0).unwrap();
    let rows = embeddings::embedding_gguf(&ids, &quantised, DType::F32).unwrap();
    let all = quantised.dequantize(CPU).unwrap().index_select(&ids.to_dtype(DType::U32).unwrap(), 0).unwrap();
    assert_eq!(f64s(&rows), f64s(&all));

    for is_neox in [true, false] {
        let ((q, mut q_), (k, mut k_)) = (both(8, DType::F32, &[3, 2, 20]), both(9, DType::F32, &[3, 1, 20]));
        ops::embeddings::rope(&ids_, &mut q_, &mut k_, &cache_, is_neox).unwrap();
        let (turned_q, turned_k) = embeddings::rope(&ids, &q, &k, &cache, is_neox).unwrap();
        each(&[(&turned_q, &q_), (&turned_k, &k_)]);
        embeddings::rope_inplace(&ids, &q, &k, &cache, is_neox).unwrap();
        each(&[(&q, &q_), (&k, &k_)]);

        let (w, w_) = both(10, DType::F32, &[20]);
        let views = [w_.view(), w_.view()];
        let (turned_q, turned_k) =
            layernorm::qk_norm_rope(&q, &k, [&w, &w], 1e-6, &ids, &cache, is_neox).unwrap();
        ops::layernorm::qk_norm_rope(&mut q_, &mut k_, views, 1e-6, &ids_, &cache_, is_neox).unwrap();
        each(&[(&turned_q, &q_), (&turned_k, &k_)]);
        layernorm::qk_norm_rope_inplace(&q, &k, [&w, &w], 1e-6, &ids, &cache, is_neox).unwrap();
        each(&[(&q, &q_), (&k, &k_)]);
    }
}

#[test]
fn products_and_quantisation() {
    for dtype in FLOATS {
        let ((x, x_), (w, w_), (b, b_)) =
            (both(11, dtype, &[2, 3, 64]), both(12, dtype, &[5, 64]), both(13, dtype, &[5]));
        let expected = ops::gemm::linear(&x_, &w_, Some(b_.view())).unwrap();
        same(&gemm::linear(&x, &w, Some(&b)).unwrap(), &expected);
        same(&gemm::linear(&x, &w, None).unwrap(), &ops::gemm::linear(&x_, &w_, None).unwrap());

        let ((x, x_), (y, y_)) = (both(14, dtype, &[3, 64]), both(15, dtype, &[4, 64]));
        let ((q8, s8), (q8_, s8_)) = (
            quantization::per_token_quant_int8(&x).unwrap(),
            ops::quantization::per_token_quant_int8(&x_).unwrap(),
        );
        each(&[(&q8, &q8_), (&s8, &s8_)]);
        let ((p8, t8), (p8_, t8_)) = (
            quantization::per_token_quant_int8(&y).unwrap(),
            ops::quantization::per_token_quant_int8(&y_).unwrap(),
        );
        same(
            &gemm::int8_scaled_mm(&q8, &p8, &s8, &t8, None, dtype).unwrap(),
            &ops::gemm::int8_scaled_mm(&q8_, &p8_, &s8_, &t8_, None, x_.dtype()).unwrap(),
        );
        let ((qf, sf), (qf_, sf_)) = (
            quantization::per_token_quant_fp8(&x).unwrap(),
            ops::quantization::per_token_quant_fp8(&x_).unwrap(),
        );
        each(&[(&qf, &qf_), (&sf, &sf_)]);
        let (bias, bias_) = both(16, DType::F32, &[3]);
        same(
            &gemm::fp8_scaled_mm(&qf, &qf, &sf, &sf, Some(&bias), DType::F32).unwrap(),
            &ops::gemm::fp8_scaled_mm(&qf_, &qf_, &sf_, &sf_, Some(bias_.view()), kr::DType::F32).unwrap(),
        );
        for (theirs, ours) in [(DType::F8E4M3, kr::DType::F8E4M3), (DType::U8, kr::DType::I8)] {
            let (q, s) = quantization::per_token_group_quant(&x, theirs, 16, 1e-10).unwrap();
            let (q_, s_) = ops::quantization::per_token_group_quant(&x_, ours, 16, 1e-10).unwrap();
            each(&[(&q, &q_), (&s, &s_)]);
        }
    }
    let (w, _) = both(17, DType::F32, &[6, 256]);
    let (x, x_) = both(18, DType::F32, &[3, 256]);
    for format in [GgmlDType::Q4_0, GgmlDType::Q5_1, GgmlDType::Q8_0, GgmlDType::Q4K, GgmlDType::Q6K] {
        let q = QTensor::quantize(&w, format).unwrap();
        let plain = quantization::dequantize_gguf(&q, DType::F32).unwrap();
        assert_eq!(f64s(&plain), f64s(&q.dequantize(CPU).unwrap()), "{format:?}");
        let plain_ =
            kr::Tensor::from_slice(&plain.flatten_all().unwrap().to_vec1::<f32>().unwrap(), &[6, 256])
                .unwrap();
        let expected = ops::gemm::linear(&x_, &plain_, None).unwrap().to_f64_vec().unwrap();
        let near = |got: Tensor, most: f64| {
            f64s(&got).iter().zip(&expected).for_each(|(g, e)| assert!((g - e).abs() < most, "{g}, {e}"));
        };
        let exact = kr::Policy { full_precision: true, ..kr::Policy::default() };
        let in_full = || gemm::linear_gguf(&x, &q, None).unwrap();
        near(kr::Registry::linked().unwrap().scope(exact, in_full).unwrap(), 1e-4);
        // With activations rounded to 8 bits: about 0.6 % of a result, which is of the order of 16.
        near(gemm::linear_gguf(&x, &q, None).unwrap(), 0.5);
    }
    let q8_1 = QTensor::quantize(&w, GgmlDType::Q8K).unwrap();
    says(gemm::linear_gguf(&x, &q8_1, None), &["gemm.linear_gguf", "Q8K", "no kernel takes"]);
}

#[test]
fn cache_and_attention() {
    let ((q, q_), (kv, kv_)) = (both(20, DType::BF16, &[3, 4, 16]), both(21, DType::BF16, &[3, 2, 16]));
    let (slots, slots_) = ints(&[5, 9, -1], &[3]);
    for (dtype, ours) in
        [(DType::BF16, kr::DType::BF16), (DType::F8E4M3, kr::DType::F8E4M3), (DType::U8, kr::DType::I8)]
    {
        let [keys, vals] = [0; 2].map(|_| Tensor::zeros((3, 4, 2, 16), dtype, CPU).unwrap());
        let [mut keys_, mut vals_] =
            [0; 2].map(|_| kr::Tensor::zeros(ours, &[3, 4, 2, 16], kr::Device::cpu()).unwrap());
        let scales = [0.03, 0.02];
        ops::kvcache::reshape_and_cache_scaled(&kv_, &kv_, &mut keys_, &mut vals_, &slots_, scales).unwrap();
        let (new_keys, new_vals) =
            kvcache::reshape_and_cache(&kv, &kv, &keys, &vals, &slots, scales).unwrap();
        each(&[(&new_keys, &keys_), (&new_vals, &vals_)]);
        assert!(f64s(&keys).iter().all(|x| *x == 0.0), "the returning form leaves the cache as it is");
        kvcache::reshape_and_cache_inplace(&kv, &kv, &keys, &vals, &slots, scales).unwrap();
        each(&[(&keys, &keys_), (&vals, &vals_)]);

        let ((table, table_), (lens, lens_)) = (ints(&[1, 2], &[1, 2]), ints(&[6], &[1]));
        let options = attention::Options {
            k_scale: 0.03,
            v_scale: 0.02,
            window: 5,
            ..attention::Options::scaled(0.25)
        };
        let options_ = ops::attention::Options {
            k_scale: 0.03,
            v_scale: 0.02,
            window: 5,
            ..ops::attention::Options::scaled(0.25)
        };
        let first = q.i(0..1).unwrap();
        let (out, _) = attention::decode(&first, [&keys, &vals], &table, &lens, options).unwrap();
        let first_ = q_.view().narrow(0, 0, 1).unwrap();
        let expected = ops::attention::decode(first_, &keys_, &vals_, &table_, &lens_, options_).unwrap();
        same(&out, &expected);
        let (offsets, offsets_) = ints(&[0, 3], &[2]);
        let (out, lse) =
            attention::prefill(&q, [&keys, &vals], &table, &lens, &offsets, None, options, true).unwrap();
        let expected =
            ops::attention::prefill(&q_, &keys_, &vals_, &table_, &lens_, &offsets_, options_, true).unwrap();
        same(&out, &expected);
        let ones = (Tensor::ones(18, DType::U8, CPU).unwrap(), ints(&[0], &[1]).0);
        let masked = Some([&ones.0, &ones.1]);
        let (again, lse_again) =
            attention::prefill(&q, [&keys, &vals], &table, &lens, &offsets, masked, options, true).unwrap();
        assert_eq!((f64s(&again), f64s(&lse_again)), (f64s(&out), f64s(&lse)), "a mask that hides nothing");
        let (merged, merged_lse) = attention::merge_state(&out, &lse, &out, &lse).unwrap();
        assert_eq!(f64s(&merged), f64s(&out), "a result merged with itself");
        f64s(&merged_lse).iter().zip(f64s(&lse)).for_each(|(a, b)| assert!((a - b - 2f64.ln()).abs() < 1e-6));
    }
    // The fused form is the two in a row.
    let (positions, cache) = (ints(&[3, 1, 4], &[3]).0, embeddings::cos_sin_cache(9, 16, 1e4).unwrap());
    let [keys, vals] = [0; 2].map(|_| Tensor::zeros((3, 4, 2, 16), DType::F16, CPU).unwrap());
    let (turned_q, turned_k) = embeddings::rope(&positions, &q, &kv, &cache, true).unwrap();
    let (k2, v2) = kvcache::reshape_and_cache(&turned_k, &kv, &keys, &vals, &slots, [1.0, 1.0]).unwrap();
    let [a, b, c, d] =
        kvcache::rope_and_cache(&positions, [&q, &kv], &kv, &cache, true, [&keys, &vals], &slots, [1.0, 1.0])
            .unwrap();
    for (got, expected) in [(a, turned_q), (b, turned_k), (c, k2), (d, v2)] {
        assert_eq!(f64s(&got), f64s(&expected));
    }
}

#[test]
fn sampling_ops() {
    let (logits, logits_) = both(30, DType::F32, &[3, 50]);
    let (probs, probs_) =
        (sampling::softmax(&logits, 0.8).unwrap(), ops::sampling::softmax(&logits_, 0.8).unwrap());
    same(&probs, &probs_);
    let draw = ops::sampling::Draw { temperature: 0.9, top_k: 5, seed: 3, ..ops::sampling::Draw::GREEDY };
    same(&sampling::sample(&logits, draw).unwrap(), &ops::sampling::sample(&logits_, draw).unwrap());
    let ((k, k_), p) = (ints(&[1, 5, 0], &[3]), [0.2f32, 0.9, 1.0]);
    same(&sampling::top_k_renorm(&probs, &k).unwrap(), &ops::sampling::top_k_renorm(&probs_, &k_).unwrap());
    let (p, p_) = (Tensor::new(&p, CPU).unwrap(), kr::Tensor::from_slice(&p, &[3]).unwrap());
    same(&sampling::top_p_renorm(&probs, &p).unwrap(), &ops::sampling::top_p_renorm(&probs_, &p_).unwrap());
    let words = [0x0F0F_0F0Fu32, 3, u32::MAX, 0, 1, 1];
    let (mask, mask_) = (
        Tensor::from_vec(words.to_vec(), (3, 2), CPU).unwrap(),
        kr::Tensor::from_slice(&words, &[3, 2]).unwrap(),
    );
    let mut masked = ops::elementwise::copy(&logits_).unwrap();
    ops::sampling::apply_mask(&mut masked, &mask_).unwrap();
    same(&sampling::apply_mask(&logits, &mask).unwrap(), &masked);
    let (tokens, tokens_) = ints(&[1, 1, 7, -1, 2, 3], &[3, 2]);
    let mut lowered = ops::elementwise::copy(&logits_).unwrap();
    ops::sampling::penalties(&mut lowered, None, &tokens_, [p_.view(), p_.view(), p_.view()]).unwrap();
    same(&sampling::penalties(&logits, None, &tokens, [&p, &p, &p]).unwrap(), &lowered);
    let copy = logits.copy().unwrap();
    sampling::penalties_inplace(&copy, Some(&tokens), &tokens, [&p, &p, &p]).unwrap();
    sampling::apply_mask_inplace(&logits, &mask).unwrap();
    same(&logits, &masked);
}

#[test]
fn columns_of_a_fused_tensor_are_read_where_they_are() {
    let (qkv, _) = both(40, DType::F32, &[4, 30]);
    let w = Tensor::ones(10, DType::F32, CPU).unwrap();
    let middle = qkv.narrow(1, 10, 10).unwrap();
    assert!(!middle.is_contiguous());
    let (got, expected) =
        (layernorm::rmsnorm(&middle, &w, 1e-5), layernorm::rmsnorm(&middle.contiguous().unwrap(), &w, 1e-5));
    assert_eq!(f64s(&got.unwrap()), f64s(&expected.unwrap()));
    // A result is memory of its own, and one argument may serve twice.
    let same_twice = elementwise::add(&middle, &middle).unwrap();
    assert_eq!(f64s(&same_twice), f64s(&(&middle * 2.0).unwrap()));
}

#[test]
fn wrong_tensors_get_one_clear_error() {
    let (x, w) = (Tensor::ones((8, 4), DType::F32, CPU).unwrap(), Tensor::ones(8, DType::F32, CPU).unwrap());
    says(
        layernorm::rmsnorm(&x.t().unwrap(), &w, 1e-5),
        &["layernorm.rmsnorm: \"x\"", "call `.contiguous()`"],
    );
    let repeated = Tensor::ones((8, 1), DType::F32, CPU).unwrap().broadcast_as((8, 8)).unwrap();
    says(layernorm::rmsnorm(&repeated, &w, 1e-5), &["\"x\"", "`.contiguous()`"]);
    says(
        layernorm::rmsnorm(&x, &w, 1e-5),
        &["layernorm.rmsnorm: shape of \"weight\": [4] expected, [8] given"],
    );
    says(
        layernorm::rmsnorm(&Tensor::ones((2, 8), DType::F64, CPU).unwrap(), &w, 1e-5),
        &["layernorm.rmsnorm: \"x\" is f64", "`.to_dtype(..)`"],
    );
    let quantised =
        QTensor::quantize(&Tensor::ones((2, 32), DType::F32, CPU).unwrap(), GgmlDType::Q8_0).unwrap();
    let id = Tensor::new(&[0i64], CPU).unwrap();
    says(embeddings::embedding_gguf(&id, &quantised, DType::F64), &["\"out\" is f64"]);
    says(
        quantization::per_token_group_quant(
            &Tensor::ones((2, 8), DType::F32, CPU).unwrap(),
            DType::F32,
            4,
            1e-10,
        ),
        &["\"q\" is f32, the op takes"],
    );
    let six = Tensor::ones((1, 1, 1, 1, 1, 8), DType::F32, CPU).unwrap();
    assert!(layernorm::rmsnorm(&six, &w, 1e-5).is_err());

    let variable = Var::from_tensor(&Tensor::ones((2, 8), DType::F32, CPU).unwrap()).unwrap();
    let tracked = (variable.as_tensor() * 2.0).unwrap();
    for x in [variable.as_tensor(), &tracked] {
        says(layernorm::rmsnorm(x, &w, 1e-5), &["no backward pass", "`.detach()`"]);
    }
    assert!(layernorm::rmsnorm(&tracked.detach(), &w, 1e-5).is_ok());
}

#[test]
fn in_place_writes_are_seen_and_never_overlap() {
    let x = Tensor::ones((2, 8), DType::F32, CPU).unwrap();
    let row = x.i(1).unwrap();
    activation::softcap_inplace(&row.unsqueeze(0).unwrap(), 0.5).unwrap();
    let all = x.to_vec2::<f32>().unwrap();
    assert!(
        all[0] == [1.0; 8] && all[1][0] < 0.5,
        "only that row, and through every tensor that shares it: {all:?}"
    );

    let (q, k) = (x.narrow(0, 0, 1).unwrap(), x.narrow(0, 1, 1).unwrap());
    let w = Tensor::ones(8, DType::F32, CPU).unwrap();
    says(
        layernorm::fused_add_rmsnorm_inplace(&q, &k, &w, 1e-5),
        &["shares its memory with", "without `_inplace`", "`.copy()`"],
    );
    says(layernorm::fused_add_rmsnorm_inplace(&x, &x, &w, 1e-5), &["shares its memory"]);
    assert!(layernorm::fused_add_rmsnorm(&q, &k, &w, 1e-5).is_ok(), "the returning form copies first");
}

#[test]
fn threads_that_name_tensors_in_other_orders_do_not_wait_in_a_circle() {
    let [a, b] = [0; 2].map(|_| Tensor::ones((4, 64), DType::F32, CPU).unwrap());
    let w = Tensor::ones(64, DType::F32, CPU).unwrap();
    std::thread::scope(|s| {
        for (x, residual) in [(&a, &b), (&b, &a), (&a, &b), (&b, &a)] {
            let w = &w;
            s.spawn(move || {
                for _ in 0..300 {
                    layernorm::fused_add_rmsnorm_inplace(x, residual, w, 1e-5).unwrap();
                    elementwise::add(x, residual).unwrap();
                }
            });
        }
    });
}

#[test]
fn candle_is_a_backend_that_is_chosen_by_name_only_where_better_ones_are() {
    let registry = kr::Registry::linked().unwrap();
    let device = registry.device("cpu").unwrap();
    let named = kr::Selector::new(registry, device).select_backend("layernorm.rmsnorm", kr::Backend::CANDLE);
    assert!(named.is_ok());
    let decision = registry.explain("layernorm.rmsnorm", device.platform(), None, None).unwrap();
    let expected = if cfg!(feature = "cpu") { "simd" } else { "candle" };
    assert_eq!(decision.chosen.map(|i| decision.candidates[i].spec.backend.0), Some(expected));
}
