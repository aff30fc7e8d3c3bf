//! Damaged files and impossible requests: one clear error each, no panic, no allocation beyond the file.

use kernel_registry::ops::sampling::Draw;
use kernel_registry::{DType, Device, Tensor};
use kernels_models::{Gguf, GgufWriter, Model, ModelError, Request, Text, demo_gguf, generate};
use std::io::Cursor;

fn load(bytes: Vec<u8>) -> Result<Model, ModelError> {
    Model::load(&mut Gguf::read(Cursor::new(bytes))?, Device::cpu(), |_, _| {})
}

fn error(bytes: Vec<u8>) -> String {
    load(bytes).err().map(|e| e.to_string()).unwrap_or_else(|| "no error".into())
}

/// The demo file with one run of bytes exchanged for another of the same length.
fn patched(from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = demo_gguf("llama").unwrap();
    let at = bytes.windows(from.len()).position(|w| w == from).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

#[test]
fn not_a_gguf_file() {
    for bytes in
        [vec![], b"GG".to_vec(), b"GGML\x03\0\0\0".to_vec(), b"PK\x03\x04 and more of a zip file".to_vec()]
    {
        assert!(matches!(load(bytes), Err(ModelError::NotGguf { .. })));
    }
    assert!(error(patched(b"GGUF\x03", b"GGUF\x09")).contains("its version is 9"));
    assert!(matches!(Gguf::open("/nowhere/at/all.gguf"), Err(ModelError::Open { .. })));
    assert!(matches!(Gguf::open("/"), Err(ModelError::Open { .. })));
}

#[test]
fn truncated_anywhere() {
    let whole = demo_gguf("llama").unwrap();
    assert!(load(whole.clone()).is_ok());
    let mut at = 0;
    while at < whole.len() {
        let result = load(whole[..at].to_vec());
        assert!(
            matches!(result, Err(ModelError::Truncated { .. } | ModelError::NotGguf { .. })),
            "cut at {at}"
        );
        // Every byte of the header, then some of the weights.
        at += if at < 6000 { 7 } else { 9973 };
    }
}

#[test]
fn numbers_that_ask_for_the_earth() {
    // Counts, lengths and dimensions of 2⁶⁰ at each place where the header may hold one.
    let whole = demo_gguf("llama").unwrap();
    for at in (8..7000).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at..at + 8].copy_from_slice(&(1u64 << 60).to_le_bytes());
        let _ = load(bytes);
    }
}

#[test]
fn random_damage_never_panics() {
    let whole = demo_gguf("llama").unwrap();
    let mut rng = kernel_registry::ops::data::Rng::new(1);
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..1 + rng.below(8) {
            let at = rng.below(8000);
            bytes[at] = rng.next_u64() as u8;
        }
        if let Ok(mut file) = Gguf::read(Cursor::new(bytes)) {
            let _ = Text::read(&mut file);
            let _ = Model::load(&mut file, Device::cpu(), |_, _| {});
        }
    }
}

#[test]
fn what_the_model_needs_and_does_not_find() {
    let text = error(patched(
        b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llama",
        b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0mamba",
    ));
    assert_eq!(
        text,
        "architecture \"mamba\" is not supported (supported: [\"llama\", \"qwen2\", \"qwen3\", \"gemma3\"])"
    );
    let text = error(patched(b"blk.1.ffn_up.weight", b"blk.1.ffn_uq.weight"));
    assert_eq!(text, "the GGUF file has no tensor \"blk.1.ffn_up.weight\", which a \"llama\" model needs");
    let text = error(patched(b"llama.block_count", b"llama.block_clunt"));
    assert!(text.contains("no usable \"llama.block_count\": it is missing"), "{text}");
    let text = error(patched(
        b"llama.attention.head_count\x04\0\0\0\x04",
        b"llama.attention.head_count\x04\0\0\0\x03",
    ));
    assert!(
        text.contains("does not") || text.contains("do not divide") || text.contains("asks for"),
        "{text}"
    );
    // blk.0.attn_q is [256, 256] of type 2 (Q4_0); type 10 is Q2_K.
    let dims = [256u64.to_le_bytes(), 256u64.to_le_bytes()].concat();
    let info = |kind: u32| {
        [b"blk.0.attn_q.weight\x02\0\0\0".to_vec(), dims.clone(), kind.to_le_bytes().to_vec()].concat()
    };
    let text = error(patched(&info(2), &info(10)));
    assert!(
        text.contains("tensor \"blk.0.attn_q.weight\" is of GGML type 10") && text.contains("Q4_K"),
        "{text}"
    );
}

#[test]
fn a_tensor_of_another_shape() {
    let mut file = GgufWriter::new();
    file.text("general.architecture", "llama");
    for (key, value) in [
        ("context_length", 8),
        ("embedding_length", 32),
        ("feed_forward_length", 32),
        ("block_count", 1),
        ("attention.head_count", 1),
    ] {
        file.int(&format!("llama.{key}"), value);
    }
    file.float("llama.attention.layer_norm_rms_epsilon", 1e-5);
    let zeros = |shape: &[usize]| Tensor::zeros(DType::F32, shape, Device::cpu()).unwrap();
    file.tensor("token_embd.weight", &zeros(&[4, 32])).unwrap();
    file.tensor("blk.0.attn_norm.weight", &zeros(&[31])).unwrap();
    let text = error(file.finish());
    assert_eq!(text, "tensor \"blk.0.attn_norm.weight\" is [31], the model's configuration asks for [32]");
}

#[test]
fn requests_that_cannot_be_served() {
    let mut file = Gguf::read(Cursor::new(demo_gguf("llama").unwrap())).unwrap();
    let model = Model::load(&mut file, Device::cpu(), |_, _| {}).unwrap();
    let ask = |prompt: &[u32], context| {
        let request = Request { prompt, max_tokens: 4, draw: Draw::GREEDY, stop: &[], context };
        generate(&model, &request, |_| Ok(())).map(|g| g.tokens.len()).map_err(|e| e.to_string())
    };
    assert!(ask(&[1; 600], usize::MAX).unwrap_err().contains("the prompt has 600 tokens, the context 512"));
    assert!(ask(&[1; 40], 20).unwrap_err().contains("raise --context"));
    assert!(ask(&[], usize::MAX).unwrap_err().contains("the prompt has no tokens"));
    assert!(ask(&[257], usize::MAX).unwrap_err().contains("token 257 is outside the vocabulary of 257"));
    assert_eq!(ask(&[1; 512], usize::MAX), Ok(1), "a full context leaves one token to say");
    assert_eq!(ask(&[1; 510], usize::MAX), Ok(3));
}
