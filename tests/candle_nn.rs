//! The drop-in layers against candle_nn's own, in candle's shapes and the layouts that models make.

use kernel_registry::candle::candle_core::quantized::{GgmlDType, QTensor};
use kernel_registry::candle::candle_core::{D, DType, Device, IndexOp, Module, Result, Tensor, Var};
use kernel_registry::candle::candle_nn::{self, VarBuilder};
use kernel_registry::candle::nn;
use kernel_registry::{Policy, Registry};
use std::collections::HashMap;
use std::sync::Arc;

/// Seeded values around 0.
fn values(shape: &[usize], seed: usize) -> Tensor {
    let n: usize = shape.iter().product();
    let v: Vec<f32> = (0..n).map(|i| ((i * 37 + seed * 101 + 11) % 97) as f32 / 48.0 - 1.0).collect();
    Tensor::from_vec(v, shape, &Device::Cpu).unwrap()
}

/// The largest difference, relative to the largest value.
#[track_caller]
fn close(ours: &Tensor, theirs: &Tensor, tolerance: f32) {
    assert_eq!((ours.dims(), ours.dtype()), (theirs.dims(), theirs.dtype()));
    let flat = |t: &Tensor| t.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let (a, b) = (flat(ours), flat(theirs));
    let scale = b.iter().fold(1e-6f32, |m, x| m.max(x.abs()));
    let worst = a.iter().zip(&b).fold(0f32, |m, (x, y)| m.max((x - y).abs() / scale));
    assert!(worst <= tolerance, "{worst} > {tolerance}");
}

/// A plain tensor, one with its first two dimensions exchanged, and columns of a wider one.
fn layouts(shape: [usize; 3]) -> Vec<Tensor> {
    let [a, b, c] = shape;
    vec![
        values(&shape, 1),
        values(&[b, a, c], 2).transpose(0, 1).unwrap(),
        values(&[a, b, 3 * c], 3).narrow(2, c, c).unwrap(),
        values(&[a, c, b], 4).transpose(1, 2).unwrap(),
    ]
}

#[test]
fn a_packed_linear_layer_gives_what_the_plain_one_gives() -> Result<()> {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let (weight, bias) = (values(&[70, 24], 7).to_dtype(dtype)?, values(&[70], 8).to_dtype(dtype)?);
        let plain = nn::Linear::new(weight, Some(bias));
        let packed = plain.clone().prepacked()?;
        for rows in [1, 3, 20] {
            let x = values(&[2, rows, 24], 9).to_dtype(dtype)?;
            let tolerance = if dtype == DType::F32 { 2e-6 } else { 1.6e-2 };
            close(&packed.forward(&x)?, &plain.forward(&x)?, tolerance);
        }
        // On tiles weights are taken as they are; on vectors the packed form is there instead of the plain one.
        assert_eq!(format!("{packed:?}").contains("gemm.linear"), packed.weight().is_none());
        assert_eq!(packed.bias().map(|b| b.dims().to_vec()), Some(vec![70]));
    }
    Ok(())
}

#[test]
fn norms_and_linear_are_candles_for_every_layout() -> Result<()> {
    let (weight, bias) = (values(&[24], 5), values(&[24], 6));
    let (matrix, offset) = (values(&[10, 24], 7), values(&[10], 8));
    for dtype in [DType::F32, DType::BF16] {
        let to = |t: &Tensor| t.to_dtype(dtype).unwrap();
        let tolerance = if dtype == DType::F32 { 2e-6 } else { 1.6e-2 };
        for x in layouts([2, 5, 24]) {
            let x = to(&x);
            let ours = nn::RmsNorm::new(to(&weight), 1e-5).forward(&x)?;
            close(&ours, &candle_nn::RmsNorm::new(to(&weight), 1e-5).forward(&x)?, tolerance);
            let ours = nn::LayerNorm::new(to(&weight), to(&bias), 1e-5).forward(&x)?;
            close(&ours, &candle_nn::LayerNorm::new(to(&weight), to(&bias), 1e-5).forward(&x)?, tolerance);
            let ours = nn::Linear::new(to(&matrix), Some(to(&offset))).forward(&x)?;
            let theirs = candle_nn::Linear::new(to(&matrix), Some(to(&offset))).forward(&x.contiguous()?)?;
            close(&ours, &theirs, tolerance);
        }
    }
    Ok(())
}

#[test]
fn the_norm_of_a_sum_gives_both() -> Result<()> {
    let (x, residual, weight) = (values(&[3, 16], 1), values(&[3, 16], 2), values(&[16], 3));
    let (y, sum) = nn::RmsNorm::new(weight.clone(), 1e-6).forward_residual(&x, &residual)?;
    close(&sum, &(&x + &residual)?, 1e-7);
    close(&y, &candle_nn::RmsNorm::new(weight, 1e-6).forward(&sum)?, 2e-6);
    Ok(())
}

#[test]
fn constructors_read_candles_builders() -> Result<()> {
    let tensors = HashMap::from([
        ("norm.weight".to_string(), values(&[8], 1)),
        ("proj.weight".to_string(), values(&[4, 8], 2)),
        ("proj.bias".to_string(), values(&[4], 3)),
        ("mlp.gate_proj.weight".to_string(), values(&[12, 8], 4)),
        ("mlp.up_proj.weight".to_string(), values(&[12, 8], 5)),
        ("mlp.down_proj.weight".to_string(), values(&[8, 12], 6)),
    ]);
    let vb = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
    let x = values(&[2, 3, 8], 7);
    let ours = nn::rms_norm(8, 1e-6, vb.pp("norm"))?.forward(&x)?;
    close(&ours, &candle_nn::rms_norm(8, 1e-6, vb.pp("norm"))?.forward(&x)?, 2e-6);
    let ours = nn::linear(8, 4, vb.pp("proj"))?.forward(&x)?;
    close(&ours, &candle_nn::linear(8, 4, vb.pp("proj"))?.forward(&x)?, 2e-6);
    let ours = nn::linear_no_bias(8, 4, vb.pp("proj"))?.forward(&x)?;
    close(&ours, &candle_nn::linear_no_bias(8, 4, vb.pp("proj"))?.forward(&x)?, 2e-6);
    let part = |name: &str, a, b| candle_nn::linear_no_bias(a, b, vb.pp("mlp").pp(name)).unwrap();
    let (gate, up, down) = (part("gate_proj", 8, 12), part("up_proj", 8, 12), part("down_proj", 12, 8));
    let theirs = down.forward(&(gate.forward(&x)?.silu()? * up.forward(&x)?)?)?;
    close(&nn::GatedMlp::load(8, 12, nn::Gate::Silu, vb.pp("mlp"))?.forward(&x)?, &theirs, 2e-6);
    assert!(nn::linear(8, 5, vb.pp("proj")).is_err());
    Ok(())
}

#[test]
fn quantised_layers_are_products_with_the_dequantised_weights() -> Result<()> {
    let exact = Policy { full_precision: true, ..Policy::default() };
    Registry::linked().unwrap().scope(exact, || quantised_layers(2e-6, 4e-6)).unwrap()?;
    // With activations rounded to 8 bits.
    quantised_layers(0.01, 0.02)
}

/// How far a product, and three one after the other, may be off.
fn quantised_layers(one: f32, three: f32) -> Result<()> {
    let x = values(&[2, 3, 64], 1);
    for dtype in [GgmlDType::Q4_0, GgmlDType::Q8_0] {
        let quantised =
            |shape: &[usize], seed| Arc::new(QTensor::quantize(&values(shape, seed), dtype).unwrap());
        let plain = |q: &QTensor| q.dequantize(&Device::Cpu).unwrap();
        let w = quantised(&[32, 64], 2);
        let ours = nn::Linear::from_qtensor(w.clone(), None).forward(&x)?;
        close(&ours, &candle_nn::Linear::new(plain(&w), None).forward(&x)?, one);
        let parts = [quantised(&[96, 64], 3), quantised(&[96, 64], 4), quantised(&[64, 96], 5)];
        let exact =
            nn::GatedMlp::new(plain(&parts[0]), plain(&parts[1]), plain(&parts[2]), nn::Gate::GeluTanh)?;
        let ours = nn::GatedMlp::from_qtensors(parts, nn::Gate::GeluTanh).forward(&x)?;
        close(&ours, &exact.forward(&x)?, three);
    }
    Ok(())
}

#[test]
fn rope_is_candles_contiguous_and_transposed() -> Result<()> {
    let (batch, heads, tokens, dim) = (2, 3, 5, 8);
    let rotary = nn::Rotary::new(32, dim, 10_000.0, true, &Device::Cpu)?;
    let frequencies: Vec<f32> = (0..dim / 2).map(|i| 10_000f32.powf(-2.0 * i as f32 / dim as f32)).collect();
    let offset = 7;
    let angles: Vec<f32> =
        (offset..offset + tokens).flat_map(|t| frequencies.iter().map(move |f| t as f32 * f)).collect();
    let angles = Tensor::from_vec(angles, (tokens, dim / 2), &Device::Cpu)?;
    let (cos, sin) = (angles.cos()?, angles.sin()?);
    let contiguous = values(&[batch, heads, tokens, dim], 1);
    let transposed = values(&[batch, tokens, heads, dim], 2).transpose(1, 2)?;
    let narrowed = values(&[batch, tokens, 2 * heads, dim], 3).narrow(2, 1, heads)?.transpose(1, 2)?;
    for xs in [contiguous, transposed, narrowed] {
        let theirs = candle_nn::rotary_emb::rope(&xs.contiguous()?, &cos, &sin)?;
        close(&nn::rope(&xs, &cos, &sin)?, &theirs, 1e-6);
        close(&rotary.forward(&xs, offset)?, &theirs, 1e-5);
        let theirs = candle_nn::rotary_emb::rope_i(&xs.contiguous()?, &cos, &sin)?;
        close(&nn::rope_i(&xs, &cos, &sin)?, &theirs, 1e-6);
    }
    assert!(
        rotary.forward(&values(&[1, 1, 1, dim], 1), 32).unwrap_err().to_string().contains("outside 0..32")
    );
    Ok(())
}

#[test]
fn softmax_is_candles() -> Result<()> {
    for x in layouts([2, 5, 24]) {
        let theirs = candle_nn::ops::softmax_last_dim(&x.contiguous()?)?;
        close(&nn::softmax_last_dim(&x)?, &theirs, 1e-6);
        let half = x.to_dtype(DType::BF16)?;
        assert_eq!(nn::softmax_last_dim(&half)?.dtype(), DType::BF16);
    }
    Ok(())
}

/// Attention with candle's operations: causal, over all keys.
fn plain_attention(q: &Tensor, k: &Tensor, v: &Tensor, scale: f64) -> Result<Tensor> {
    let (_, heads, new, _) = q.dims4()?;
    let (batch, kv_heads, all, dim) = k.dims4()?;
    let spread = |t: &Tensor| {
        t.unsqueeze(2)?
            .expand((batch, kv_heads, heads / kv_heads, all, dim))?
            .reshape((batch, heads, all, dim))
    };
    let scores = (q.contiguous()?.matmul(&spread(k)?.t()?.contiguous()?)? * scale)?;
    let mask: Vec<f32> = (0..new)
        .flat_map(|i| (0..all).map(move |j| if j > all - new + i { f32::NEG_INFINITY } else { 0.0 }))
        .collect();
    let mask = Tensor::from_vec(mask, (new, all), &Device::Cpu)?;
    candle_nn::ops::softmax(&scores.broadcast_add(&mask)?, D::Minus1)?.matmul(&spread(v)?.contiguous()?)
}

#[test]
fn attention_over_a_growing_cache_is_attention_over_all_tokens() -> Result<()> {
    let (batch, heads, kv_heads, dim, scale) = (2, 4, 2, 16, 0.25);
    let mut cache = nn::KvCache::new(batch, 80, kv_heads, dim, DType::F32, &Device::Cpu)?;
    // Heads as columns of one projection, brought forward as models do; more tokens than one block holds.
    let all = values(&[batch, 80, heads + 2 * kv_heads, dim], 9);
    let part = |from: usize, count: usize, at: usize, n: usize| {
        all.narrow(1, from, n).unwrap().narrow(2, at, count).unwrap().transpose(1, 2).unwrap()
    };
    let mut done = 0;
    for new in [5, 1, 1, 60, 1, 12] {
        let (q, k, v) = (
            part(done, heads, 0, new),
            part(done, kv_heads, heads, new),
            part(done, kv_heads, heads + kv_heads, new),
        );
        let ours = cache.attend(&q, &k, &v, scale)?;
        done += new;
        assert_eq!(cache.len(), done);
        let theirs = plain_attention(
            &q,
            &part(0, kv_heads, heads, done),
            &part(0, kv_heads, heads + kv_heads, done),
            scale,
        )?;
        close(&ours, &theirs, 1e-5);
    }
    let one = values(&[batch, heads, 1, dim], 1);
    let key = one.narrow(1, 0, kv_heads)?;
    let error = cache.attend(&one, &key, &key, scale).unwrap_err().to_string();
    assert!(error.contains("it has room for 2 of 80: make it larger, or reset it"), "{error}");
    cache.reset();
    assert!(cache.is_empty());
    let alone = cache.attend(&one, &key, &key, scale)?;
    close(&alone.i((.., 0))?, &key.i((.., 0))?, 1e-6);
    Ok(())
}

#[test]
fn a_tracked_tensor_is_an_error_with_its_cure() {
    let weight = Var::from_tensor(&values(&[8], 1)).unwrap();
    let norm = nn::RmsNorm::new(weight.as_tensor().clone(), 1e-5);
    let error = norm.forward(&values(&[2, 8], 2)).unwrap_err().to_string();
    assert!(error.contains("\"weight\" is a variable") && error.contains("`.detach()`"), "{error}");
    let norm = nn::RmsNorm::new(weight.as_tensor().detach(), 1e-5);
    assert!(norm.forward(&values(&[2, 8], 2)).is_ok());
}
