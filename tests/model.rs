//! A real model against two other engines on the same file (tests/fixtures/smollm2.json, made by
//! scripts/golden/make). `scripts/test` fetches the file and names it in KERNELS_TEST_MODEL.

use kernel_registry::ops::sampling::Draw;
use kernel_registry::{Device, Recorder};
use kernels_models::{Generated, Gguf, Llama, Request, Text, generate};
use serde_json::Value;

fn tokens(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

fn model_path() -> String {
    std::env::var("KERNELS_TEST_MODEL")
        .expect("KERNELS_TEST_MODEL names the model's file; `scripts/test` fetches it and runs the tests")
}

fn run(model: &Llama, prompt: &[u32], new: usize, draw: Draw) -> Generated {
    let request = Request { prompt, max_tokens: new, draw, stop: &[], context: usize::MAX };
    generate(model, &request, |_| Ok(())).unwrap()
}

#[test]
fn greedy_tokens_are_those_of_other_engines() {
    // Reference kernels alone would take many minutes on this model; the demo model covers them.
    if cfg!(not(feature = "cpu")) {
        println!("not compared: the feature \"cpu\" is off");
        return;
    }
    let path = model_path();
    let fixture: Value = serde_json::from_str(
        &std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/smollm2.json"))
            .unwrap(),
    )
    .unwrap();
    let mut file = Gguf::open(&path).unwrap();
    let text = Text::read(&mut file).unwrap();
    let model = Llama::load(&mut file, Device::cpu(), |_, _| {}).unwrap();
    for prompt in fixture["prompts"].as_array().unwrap() {
        let (words, ids) = (prompt["text"].as_str().unwrap(), tokens(&prompt["prompt_ids"]));
        assert_eq!(text.encode(words).unwrap(), ids, "tokens of {words:?}");
        let ours = run(&model, &ids, 64, Draw::GREEDY).tokens;

        // An engine without quantised activations: the same tokens, unless a lead is within f32's rounding.
        let (exact, leads) = (tokens(&prompt["exact_ids"]), prompt["exact_leads"].as_array().unwrap());
        match ours.iter().zip(&exact).position(|(a, b)| a != b) {
            None => println!("{words:?}: all 64 tokens are torch's"),
            Some(i) => {
                let lead = leads[i].as_f64().unwrap();
                println!(
                    "{words:?}: token {i} is {} and torch's {}, which leads by {lead}",
                    ours[i], exact[i]
                );
                assert!(lead < 2e-3, "that is more than rounding");
            }
        }
        // llama.cpp quantises activations to 8 bits. `noise` is by how much that was seen to move a lead.
        let (theirs, leads) = (tokens(&prompt["ids"]), prompt["leads"].as_array().unwrap());
        let noise = prompt["noise"].as_f64().unwrap();
        match ours.iter().zip(&theirs).position(|(a, b)| a != b) {
            None => println!("{words:?}: all 64 tokens are llama.cpp's"),
            Some(i) => {
                let lead = leads[i].as_f64().unwrap();
                println!(
                    "{words:?}: token {i} is {} and llama.cpp's {}, which leads by {lead} (its noise: {noise})",
                    ours[i], theirs[i]
                );
                assert!(lead < noise, "that is more than its 8-bit activations explain");
            }
        }
    }
}

fn demo() -> (Llama, Text) {
    let mut file = Gguf::read(std::io::Cursor::new(kernels_models::demo_gguf().unwrap())).unwrap();
    let text = Text::read(&mut file).unwrap();
    (Llama::load(&mut file, Device::cpu(), |_, _| {}).unwrap(), text)
}

#[test]
fn a_seed_reproduces_and_another_differs() {
    let (model, text) = demo();
    let prompt = text.encode("hello").unwrap();
    let draw = |seed| Draw { temperature: 1.0, top_k: 50, top_p: 0.95, min_p: 0.01, seed };
    let [a, b, c] = [7, 7, 8].map(|seed| run(&model, &prompt, 20, draw(seed)).tokens);
    assert_eq!(a, b);
    assert_ne!(a, c);
}

#[test]
fn feeding_at_once_or_one_by_one_gives_the_same_logits() {
    let (model, text) = demo();
    let prompt = text
        .encode("The quick brown fox jumps over the lazy dog, twice over 70 tokens of this demo text.")
        .unwrap();
    let mut at_once = model.session(200).unwrap();
    let expected = at_once.feed(&prompt).unwrap().to_f32_vec().unwrap();
    let mut single = model.session(200).unwrap();
    let (last, before) = prompt.split_last().unwrap();
    before.iter().for_each(|t| _ = single.feed(&[*t]).unwrap());
    let got = single.feed(&[*last]).unwrap().to_f32_vec().unwrap();
    for (g, e) in got.iter().zip(&expected) {
        assert!((g - e).abs() < 2e-3 * (1.0 + e.abs()), "{g} {e}");
    }
    assert_eq!(at_once.len(), single.len());
}

#[test]
fn every_tensor_operation_of_a_model_is_an_op() {
    let (model, text) = demo();
    let recorder = Recorder::start();
    run(&model, &text.encode("abc").unwrap(), 2, Draw::GREEDY);
    let mut ops: Vec<_> = recorder.records().iter().map(|r| r.op).collect();
    ops.sort_unstable();
    ops.dedup();
    assert_eq!(ops, kernels_models::OPS);
}
