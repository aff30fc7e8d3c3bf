//! candle's own operations as a peer of `kernels bench --peers`; `scripts/peers/protocol.py` says what the lines are.

use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{D, DType, Device, Module, Tensor};
use serde_json::{Value, json};
use std::io::BufRead;
use std::time::Instant;

type Run = Box<dyn FnMut() -> candle_core::Result<Tensor>>;

fn main() -> anyhow::Result<()> {
    println!("{}", json!({ "peer": "candle 0.11.1" }));
    let mut run: Option<Run> = None;
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let answer = match request.get("call") {
            Some(call) => made(call).map(|(note, made)| {
                run = Some(made);
                json!({ "note": note })
            }),
            None => timed(run.as_mut(), request["seconds"].as_f64().unwrap_or(0.02)),
        };
        println!("{}", answer.unwrap_or_else(|e| json!({ "error": e.to_string() })));
    }
    Ok(())
}

fn timed(run: Option<&mut Run>, seconds: f64) -> anyhow::Result<Value> {
    let run = run.ok_or_else(|| anyhow::anyhow!("nothing is ready"))?;
    let mut time = |count: u32| -> anyhow::Result<f64> {
        let start = Instant::now();
        for _ in 0..count {
            std::hint::black_box(run()?);
        }
        Ok(start.elapsed().as_secs_f64() / f64::from(count))
    };
    time(1)?;
    let once = time(1)?;
    Ok(json!({ "seconds": time(((seconds / once) as u32).max(1))? }))
}

fn made(call: &Value) -> anyhow::Result<(&'static str, Run)> {
    let tensor = |i: usize| -> anyhow::Result<(String, Vec<usize>)> {
        let t = &call["tensors"][i];
        Ok((t["dtype"].as_str().unwrap_or_default().into(), serde_json::from_value(t["shape"].clone())?))
    };
    let new = |i: usize| -> anyhow::Result<Tensor> {
        let (dtype, shape) = tensor(i)?;
        let dtype = match dtype.as_str() {
            "f32" => DType::F32,
            "f16" => DType::F16,
            "bf16" => DType::BF16,
            other => anyhow::bail!("no {other} here"),
        };
        Ok(Tensor::randn(0f32, 1.0, shape, &Device::Cpu)?.to_dtype(dtype)?)
    };
    // rayon's pool is as large as it was made by the first call.
    // SAFETY: nothing else runs yet.
    unsafe { std::env::set_var("RAYON_NUM_THREADS", call["threads"].to_string()) };
    Ok(match call["op"].as_str().unwrap_or_default() {
        "layernorm.rmsnorm" => {
            let (x, w) = (new(0)?, new(1)?);
            ("rms_norm", Box::new(move || candle_nn::ops::rms_norm(&x, &w, 1e-6)))
        }
        "layernorm.fused_add_rmsnorm" => {
            let (x, r, w) = (new(0)?, new(1)?, new(2)?);
            ("add, rms_norm", Box::new(move || candle_nn::ops::rms_norm(&(&x + &r)?, &w, 1e-6)))
        }
        "layernorm.layernorm" => {
            let (x, w, b) = (new(0)?, new(1)?, new(2)?);
            ("layer_norm", Box::new(move || candle_nn::ops::layer_norm(&x, &w, &b, 1e-5)))
        }
        "activation.silu_and_mul" => {
            let x = new(0)?;
            let half = x.dim(D::Minus1)? / 2;
            let (gate, up) = (x.narrow(1, 0, half)?.contiguous()?, x.narrow(1, half, half)?.contiguous()?);
            ("silu, mul", Box::new(move || gate.silu()? * &up))
        }
        "gemm.linear" => {
            let (x, w) = (new(0)?, new(1)?.t()?);
            ("matmul", Box::new(move || x.matmul(&w)))
        }
        "gemm.linear_gguf" => {
            let (kind, shape) = tensor(1)?;
            let kind = match kind.as_str() {
                "q4_0" => GgmlDType::Q4_0,
                "q4_1" => GgmlDType::Q4_1,
                "q5_0" => GgmlDType::Q5_0,
                "q5_1" => GgmlDType::Q5_1,
                "q8_0" => GgmlDType::Q8_0,
                "q4_k" => GgmlDType::Q4K,
                "q5_k" => GgmlDType::Q5K,
                "q6_k" => GgmlDType::Q6K,
                other => anyhow::bail!("no {other} here"),
            };
            let w = QTensor::quantize(&Tensor::randn(0f32, 0.05, shape, &Device::Cpu)?, kind)?;
            let (x, w) = (new(0)?, QMatMul::from_qtensor(w)?);
            ("QMatMul", Box::new(move || w.forward(&x)))
        }
        "sampling.softmax" => {
            let x = new(0)?;
            ("softmax_last_dim", Box::new(move || candle_nn::ops::softmax_last_dim(&x)))
        }
        other => anyhow::bail!("no {other} here"),
    })
}
