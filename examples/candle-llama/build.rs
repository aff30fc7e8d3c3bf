//! Takes `models/llama.rs` out of the candle-transformers that cargo fetched, exchanges its layers, and writes it for main.rs.

use cargo_metadata::MetadataCommand;
use similar::{ChangeTag, TextDiff};

/// What is written in place of what. This is the whole change.
const EXCHANGES: &[(&str, &str)] = &[
    (
        "use super::with_tracing::{linear_no_bias as linear, Linear, RmsNorm};",
        "use kernel_registry::candle::nn::{linear_no_bias as linear, rms_norm, rope, GatedMlp, Gate, KvCache, Linear, RmsNorm};",
    ),
    ("RmsNorm::new(", "rms_norm("),
    ("Linear::from_weights(", "Linear::new("),
    ("candle_nn::rotary_emb::rope(", "rope("),
    ("mlp: Mlp,", "mlp: GatedMlp,"),
    (
        "Mlp::load(vb.pp(\"mlp\"), cfg)?",
        "GatedMlp::load(cfg.hidden_size, cfg.intermediate_size, Gate::Silu, vb.pp(\"mlp\"))?",
    ),
    ("kvs: Vec<Option<(Tensor, Tensor)>>,", "kvs: Vec<KvCache>,"),
    (
        "kvs: vec![None; config.num_hidden_layers],",
        "kvs: (0..config.num_hidden_layers).map(|_| KvCache::new(1, config.max_position_embeddings, \
         config.num_key_value_heads, config.hidden_size / config.num_attention_heads, dtype, device)).collect::<Result<_>>()?,",
    ),
    ("#[derive(Debug, Clone)]\npub struct Cache {", "#[derive(Debug)]\npub struct Cache {"),
];

/// Cache and attention, from the first of these to before the second, are one call.
const ATTENTION: [&str; 2] =
    ["        if cache.use_kv_cache {", "        let y = y.transpose(1, 2)?.reshape("];
const ATTEND: &str =
    "        let y = cache.kvs[block_idx].attend(&q, &k, &v, (self.head_dim as f64).powf(-0.5))?;\n";

/// Parts of the file that the exchange leaves without a use.
const UNUSED: [[&str; 2]; 4] = [
    ["    fn mask(&mut self", "}\n\n#[derive(Debug, Clone)]\nstruct CausalSelfAttention"],
    ["    fn repeat_kv(", "    fn load(vb: VarBuilder, cfg: &Config)"],
    ["fn masked_fill(", "#[derive(Debug, Clone)]\nstruct Mlp"],
    ["#[derive(Debug, Clone)]\nstruct Mlp", "#[derive(Debug, Clone)]\nstruct Block"],
];

fn cut(text: &str, [from, to]: [&str; 2], with: &str) -> String {
    let start = text.find(from).unwrap_or_else(|| panic!("llama.rs has no {from:?}: is it another version?"));
    let end =
        start + text[start..].find(to).unwrap_or_else(|| panic!("llama.rs has no {to:?} after {from:?}"));
    format!("{}{with}{}", &text[..start], &text[end..])
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let metadata = MetadataCommand::new().exec().expect("cargo metadata");
    let package = metadata.packages.iter().find(|p| p.name == "candle-transformers").expect("a dependency");
    let source = package.manifest_path.with_file_name("src").join("models/llama.rs");
    let original = std::fs::read_to_string(&source).expect("candle-transformers' llama.rs");
    let mut exchanged = original.clone();
    for (from, to) in EXCHANGES {
        assert!(exchanged.contains(from), "llama.rs has no {from:?}: is it another version?");
        exchanged = exchanged.replace(from, to);
    }
    exchanged = cut(&exchanged, ATTENTION, ATTEND);
    for part in UNUSED {
        exchanged = cut(&exchanged, part, "");
    }
    let diff = TextDiff::from_lines(&original, &exchanged);
    let count = |tag| diff.iter_all_changes().filter(|c| c.tag() == tag).count();
    println!("cargo:rustc-env=LINES_ADDED={}", count(ChangeTag::Insert));
    println!("cargo:rustc-env=LINES_REMOVED={}", count(ChangeTag::Delete));
    // Names as they are outside of candle-transformers, and no inner documentation in an included file.
    let outside =
        exchanged.replace("crate::", "candle_transformers::").replace("use candle::", "use candle_core::");
    let outside: String =
        outside.lines().filter(|l| !l.starts_with("//!")).map(|l| format!("{l}\n")).collect();
    let out = std::path::Path::new(&std::env::var("OUT_DIR").expect("set by cargo")).join("llama.rs");
    std::fs::write(out, outside).expect("a file");
}
