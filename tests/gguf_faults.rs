//! Damaged files and impossible requests: one clear error each, no panic, no allocation beyond the file.

use kernel_registry::ops::data::Rng;
use kernel_registry::ops::sampling::Draw;
use kernel_registry::{DType, Device, Tensor};
use kernels_models::{Gguf, GgufWriter, Model, ModelError, Request, Text, demo_gguf, generate};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Cursor;

/// The system's allocator, which counts for each thread what is allocated, and the most at a time.
struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let now = NOW.get() + bytes;
    NOW.set(now);
    PEAK.set(PEAK.get().max(now));
}

// SAFETY: everything is passed on; counting neither allocates nor touches the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: passed on.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that this thread had allocated at a time during `work`, beyond what it had before.
fn allocated_during(work: impl FnOnce()) -> usize {
    let before = NOW.get();
    PEAK.set(before);
    work();
    (PEAK.get() - before) as usize
}

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

/// The demo file after one of several accidents, or something that only begins like a file.
fn damaged(whole: &[u8], rng: &mut Rng) -> Vec<u8> {
    // The header ends before 8000; damage to weights only changes what the model says.
    let mut bytes = whole.to_vec();
    match rng.below(8) {
        0..=3 => (0..1 + rng.below(8)).for_each(|_| bytes[rng.below(8000)] = rng.next_u64() as u8),
        4 => {
            let (at, big) = (rng.below(8000), rng.next_u64() >> rng.below(64));
            bytes[at..at + 8].copy_from_slice(&big.to_le_bytes());
        }
        5 => {
            let most = if rng.below(2) == 0 { 8000 } else { whole.len() };
            bytes.truncate(rng.below(most));
        }
        6 => {
            let (from, to, len) = (rng.below(7000), rng.below(7000), rng.below(900));
            bytes.copy_within(from..from + len, to);
        }
        _ => {
            bytes.truncate(rng.below(2000));
            bytes.iter_mut().skip(8).for_each(|b| *b = rng.next_u64() as u8 >> rng.below(8));
        }
    }
    bytes
}

#[test]
fn ten_thousand_damaged_files_neither_panic_nor_ask_for_more_than_twice_their_size() {
    let (mut loaded, mut refused, mut worst) = (0, 0, 0.0f64);
    for (seed, architecture) in ["llama", "qwen2", "qwen3", "gemma3"].into_iter().enumerate() {
        let (whole, mut rng) = (demo_gguf(architecture).unwrap(), Rng::new(seed as u64));
        for _ in 0..2500 {
            let bytes = damaged(&whole, &mut rng);
            let size = bytes.len();
            let peak = allocated_during(|| {
                let Ok(mut file) = Gguf::read(Cursor::new(bytes)) else { return refused += 1 };
                let _ = Text::read(&mut file);
                match Model::load(&mut file, Device::cpu(), |_, _| {}) {
                    Ok(_) => loaded += 1,
                    Err(_) => refused += 1,
                }
            });
            // The tokenizer's regular expressions take half a MiB, whatever the file.
            assert!(peak <= 2 * size + (1 << 20), "{peak} bytes for a file of {size}");
            worst = worst.max(peak as f64 / (size.max(1 << 20)) as f64);
        }
    }
    println!(
        "{loaded} loaded, {refused} were refused; at most {worst:.2} times the file's size was allocated"
    );
    assert_eq!(loaded + refused, 10_000);
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
fn tensors_that_share_bytes() {
    // The second tensor's offset becomes the first one's.
    let mut bytes = demo_gguf("llama").unwrap();
    let name = b"blk.0.attn_k.weight\x02\0\0\0";
    let at = bytes.windows(name.len()).position(|w| w == name).unwrap() + name.len() + 16 + 4;
    bytes[at..at + 8].copy_from_slice(&0u64.to_le_bytes());
    let text = error(bytes);
    assert!(text.contains("share bytes") && text.contains("blk.0.attn_k.weight"), "{text}");
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
