//! Models against two other engines on the same files (tests/fixtures, made by scripts/golden/make), and several
//! prompts at once. `scripts/test` fetches the real ones and names their folder in KERNELS_TEST_MODELS.

use kernel_registry::ops::sampling::Draw;
use kernel_registry::{DType, Device, Policy, Recorder, Registry};
use kernels_models::{
    Generated, Gguf, Limits, Model, ModelError, Request, Room, Step, Text, generate, generate_all,
};
use serde_json::Value;

fn tokens(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

/// A model's file, fetched by `scripts/test`.
fn fetched(file: &str) -> Gguf<impl std::io::Read + std::io::Seek> {
    let folder = std::env::var("KERNELS_TEST_MODELS").expect(
        "KERNELS_TEST_MODELS names the folder of models; `scripts/test` fetches them and runs the tests",
    );
    Gguf::open(std::path::Path::new(&folder).join(file)).unwrap()
}

fn demo_file(architecture: &str) -> Gguf<std::io::Cursor<Vec<u8>>> {
    Gguf::read(std::io::Cursor::new(kernels_models::demo_gguf(architecture).unwrap())).unwrap()
}

fn run(model: &Model, prompt: &[u32], new: usize, draw: Draw) -> Generated {
    let request = Request { prompt, max_tokens: new, draw, stop: &[], context: usize::MAX };
    generate(model, &request, |_| Ok(())).unwrap()
}

/// `f`, with activations as they are.
fn in_full_precision<T>(f: impl FnOnce() -> T) -> T {
    let policy = Policy { full_precision: true, ..Policy::default() };
    Registry::linked().unwrap().scope(policy, f).unwrap()
}

/// Greedy tokens against those of both engines in a fixture.
fn agrees<R: std::io::Read + std::io::Seek>(name: &str, mut file: Gguf<R>) {
    let path = format!("{}/tests/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let fixture: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let text = Text::read(&mut file).unwrap();
    let model = Model::load(&mut file, Device::cpu(), |_, _| {}).unwrap();
    for prompt in fixture["prompts"].as_array().unwrap() {
        let (words, ids) = (prompt["text"].as_str().unwrap(), tokens(&prompt["prompt_ids"]));
        assert_eq!(text.encode(words).unwrap(), ids, "tokens of {words:?}");
        let exact = tokens(&prompt["exact_ids"]);
        let ours = in_full_precision(|| run(&model, &ids, exact.len(), Draw::GREEDY).tokens);

        let rounded = run(&model, &ids, exact.len(), Draw::GREEDY).tokens;

        // torch does not quantise activations: the same tokens, unless a lead is within f32's rounding. llama.cpp rounds
        // them to 8 bits, and so do kernels here where they may: `noise` is by how much that was seen to move a lead.
        let noise = prompt["noise"].as_f64().unwrap();
        let torchs = ("torch's", &exact, &prompt["exact_leads"]);
        let llamas = ("llama.cpp's", &tokens(&prompt["ids"]), &prompt["leads"]);
        for (mine, ours, (whose, theirs, leads), allowed) in [
            ("exact", &ours, torchs, 2e-3),
            ("exact", &ours, llamas, noise),
            ("rounded", &rounded, llamas, noise),
            ("rounded", &rounded, torchs, noise),
        ] {
            match ours.iter().zip(theirs).position(|(a, b)| a != b) {
                None => println!("{name}, {words:?}, {mine}: all {} tokens are {whose}", theirs.len()),
                Some(i) => {
                    let lead = leads[i].as_f64().unwrap();
                    println!(
                        "{name}, {words:?}, {mine}: token {i} is {} and {whose} {}, which leads by {lead} ({allowed} allowed)",
                        ours[i], theirs[i]
                    );
                    assert!(lead < allowed, "that is more than rounding explains");
                }
            }
        }
    }
}

// Reference kernels alone would take many minutes on the real models; the demo models cover them.

#[test]
#[cfg(feature = "cpu")]
fn smollm2_says_what_it_says_in_other_engines() {
    agrees("smollm2", fetched("SmolLM2-135M-Instruct.Q4_1.gguf"));
}

#[test]
#[cfg(feature = "cpu")]
fn gemma3_says_what_it_says_in_other_engines() {
    agrees("gemma3", fetched("gemma-3-270m-q4_k_m.gguf"));
}

#[test]
fn tiny_models_of_each_family_say_what_they_say_in_other_engines() {
    for family in ["qwen2", "qwen3", "gemma3"] {
        agrees(&format!("demo-{family}"), demo_file(family));
    }
}

#[test]
#[cfg(feature = "cpu")]
fn prompts_at_once_say_what_they_say_one_by_one() {
    let mut file = fetched("SmolLM2-135M-Instruct.Q4_1.gguf");
    let text = Text::read(&mut file).unwrap();
    let model = Model::load(&mut file, Device::cpu(), |_, _| {}).unwrap();
    let prompts = ["The capital of France is", "Once upon a time", "def fibonacci(n):", "Water boils at"];
    // Rounding to 8 bits makes the last bit of a sum, which depends on how many rows there are, into a step of 1/254.
    in_full_precision(|| at_once(&model, &prompts.map(|p| text.encode(p).unwrap()), 24));
}

/// Several requests of different lengths with room for all, and with room for some, against each by itself.
fn at_once(model: &Model, prompts: &[Vec<u32>], new: usize) {
    let draws = [Draw::GREEDY, Draw { temperature: 0.9, top_k: 20, seed: 5, ..Draw::GREEDY }];
    let request = |(i, prompt): (usize, &'_ Vec<u32>)| (prompt.clone(), new - 3 * (i % 3), draws[i % 2]);
    let wanted: Vec<_> = prompts.iter().enumerate().map(request).collect();
    let alone: Vec<_> = wanted.iter().map(|(p, n, d)| run(model, p, *n, *d).tokens).collect();
    let requests: Vec<_> = wanted
        .iter()
        .map(|(prompt, max_tokens, draw)| Request {
            prompt,
            max_tokens: *max_tokens,
            draw: *draw,
            stop: &[],
            context: usize::MAX,
        })
        .collect();
    for blocks in [None, Some(2)] {
        let mut seen = vec![0; prompts.len()];
        let limits = Limits { blocks, ..Limits::default() };
        let together = generate_all(model, &requests, limits, |i, step| {
            if let Step::Token(tokens) = step {
                seen[i] = tokens.len();
            }
            Ok(())
        })
        .unwrap();
        for (i, (one, all)) in alone.iter().zip(&together).enumerate() {
            assert_eq!(*one, all.tokens, "request {i} with {blocks:?} blocks");
            assert_eq!(seen[i], one.len());
        }
    }
}

#[test]
fn a_batch_refuses_what_it_has_no_room_for_and_goes_on() {
    let (model, text) = demo();
    let prompt = text.encode("The quick brown fox").unwrap();
    let mut batch = model.batch(Room { blocks: 3, longest: 200, cache: DType::F16 }).unwrap();
    let (a, b) = (batch.add(), batch.add());
    batch.feed(&[(a, &[1; 70]), (b, &prompt)]).unwrap();
    let error = batch.feed(&[(a, &[1; 60]), (b, &[2])]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the cache has 0 of 3 blocks free, and 1 are needed\n  fix: more blocks, fewer or shorter sequences, or \
         remove one that is done"
    );
    assert_eq!((batch.len(a), batch.len(b), batch.blocks().free()), (70, prompt.len(), 0), "nothing changed");
    batch.remove(a);
    assert_eq!((batch.len(a), batch.blocks().free()), (0, 2));
    // The blocks that come back hold another sequence's keys: they must not be seen.
    let c = batch.add();
    let got = batch.feed(&[(b, &[2]), (c, &prompt)]).unwrap().to_f32_vec().unwrap();
    let mut fresh = model.session(200).unwrap();
    let expected = fresh.feed(&prompt).unwrap().to_f32_vec().unwrap();
    for (g, e) in got[expected.len()..].iter().zip(&expected) {
        assert!((g - e).abs() < 2e-3 * (1.0 + e.abs()), "{g} {e}");
    }
    for (feeds, says) in [
        (vec![(b, &[2u32][..]), (b, &[2])], "is named twice"),
        (vec![(b, &[][..])], "no tokens"),
        (vec![(b, &[300][..])], "outside the vocabulary"),
        (vec![(b, &[1; 200][..])], "the prompt has"),
    ] {
        let text = batch.feed(&feeds).unwrap_err().to_string();
        assert!(text.contains(says), "{text}");
    }
    batch.remove(c);
    assert!(batch.feed(&[(c, &[1])]).unwrap_err().to_string().contains("is not in the batch"));
    assert!(model.batch(Room::for_sequences(1, 100_000)).is_err(), "beyond the context");
    let request = Request { prompt: &prompt, max_tokens: 100, draw: Draw::GREEDY, stop: &[], context: 500 };
    let few = Limits { blocks: Some(1), ..Limits::default() };
    assert!(matches!(
        generate_all(&model, &[request], few, |_, _| Ok(())),
        Err(ModelError::OutOfBlocks { .. })
    ));
}

#[test]
fn a_cache_of_eight_bits_says_about_the_same() {
    let (model, text) = demo();
    let prompt = text.encode("The quick brown fox").unwrap();
    let logits = |cache| {
        let mut batch = model.batch(Room { cache, ..Room::for_sequences(1, 200) }).unwrap();
        let id = batch.add();
        batch.feed(&[(id, &prompt)]).unwrap().to_f32_vec().unwrap()
    };
    let (wide, narrow) = (logits(DType::F32), logits(DType::F8E4M3));
    let size = wide.iter().map(|x| x.abs()).fold(0.0, f32::max);
    let off = wide.iter().zip(&narrow).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(off > 0.0 && off < 0.1 * size, "{off} of {size}");
}

fn demo() -> (Model, Text) {
    let mut file = demo_file("llama");
    let text = Text::read(&mut file).unwrap();
    (Model::load(&mut file, Device::cpu(), |_, _| {}).unwrap(), text)
}

#[test]
fn a_seed_reproduces_and_another_differs() {
    let (model, text) = demo();
    let prompt = text.encode("hello").unwrap();
    let draw = |seed| Draw { temperature: 1.0, top_k: 50, top_p: 0.95, min_p: 0.01, seed };
    at_once(
        &model,
        &["a", "bcd", "The quick brown fox", "x y z", ""].map(|p| text.encode(&format!("{p}!")).unwrap()),
        20,
    );
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
    for family in kernels_models::ARCHITECTURES {
        let mut file = demo_file(family);
        let text = Text::read(&mut file).unwrap();
        let model = Model::load(&mut file, Device::cpu(), |_, _| {}).unwrap();
        let recorder = Recorder::start();
        run(&model, &text.encode("abc").unwrap(), 3, Draw::GREEDY);
        let mut ops: Vec<_> = recorder.records().iter().map(|r| r.op).collect();
        ops.sort_unstable();
        ops.dedup();
        // Other tests run meanwhile, and the recorder is the process's.
        assert!(model.config().ops().iter().all(|op| ops.contains(op)), "{family}: {ops:?}");
    }
}
