//! What can be wrong with a model file or a request for text.

use std::path::PathBuf;
use thiserror::Error;

/// What this crate returns.
pub type Result<T, E = ModelError> = std::result::Result<T, E>;

/// What can be wrong with a model file or a request for text.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file cannot be opened.
    #[error("cannot open model file {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// The file is not GGUF at all.
    #[error("not a GGUF file: {detail}\n  fix: pass a .gguf file of version 2 or 3, little-endian")]
    NotGguf {
        /// What it begins with.
        detail: String,
    },
    /// The file ends before what it announces.
    #[error(
        "the GGUF file is truncated: {what} needs {need} bytes at offset {at}, the file has {have}\n  fix: download it again"
    )]
    Truncated {
        /// What was being read.
        what: String,
        /// Where.
        at: u64,
        /// How much.
        need: u64,
        /// Size of the file.
        have: u64,
    },
    /// The file contradicts itself.
    #[error("the GGUF file is damaged: {detail}\n  fix: download it again")]
    Damaged {
        /// In words.
        detail: String,
    },
    /// Reading failed.
    #[error("reading the GGUF file: {0}")]
    Read(#[from] std::io::Error),
    /// A model family that is not built here.
    #[error("architecture \"{have}\" is not supported (supported: {known:?})")]
    UnknownArchitecture {
        /// The file's.
        have: String,
        /// What is built.
        known: &'static [&'static str],
    },
    /// A metadata key that the model needs.
    #[error("the GGUF file has no usable \"{key}\": {detail}")]
    Key {
        /// The key.
        key: String,
        /// Missing, or what is wrong with it.
        detail: String,
    },
    /// A feature of the model that is not built here.
    #[error("the model needs {what}, which is not supported here")]
    Unsupported {
        /// In words.
        what: String,
    },
    /// A weight format without kernels.
    #[error(
        "tensor \"{tensor}\" is of GGML type {type_id}, which is not supported\n  fix: use a file quantised as F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K or Q6_K"
    )]
    UnknownTensorType {
        /// The tensor.
        tensor: String,
        /// GGML's number.
        type_id: u32,
    },
    /// A weight that the model needs.
    #[error("the GGUF file has no tensor \"{name}\", which a \"{architecture}\" model needs")]
    MissingTensor {
        /// The tensor.
        name: String,
        /// The model family.
        architecture: String,
    },
    /// A weight of another shape.
    #[error("tensor \"{name}\" is {have:?}, the model's configuration asks for {need:?}")]
    TensorShape {
        /// The tensor.
        name: String,
        /// The file's, outermost first.
        have: Vec<usize>,
        /// The configuration's.
        need: Vec<usize>,
    },
    /// More tokens than the model was made for.
    #[error("the prompt has {prompt} tokens, the context {context}\n  fix: shorten the prompt{}", if *.limited { ", or raise --context" } else { "" })]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Room.
        context: usize,
        /// The room is less than the model's own.
        limited: bool,
    },
    /// Nothing to start from.
    #[error("the prompt has no tokens\n  fix: pass some text with --prompt")]
    EmptyPrompt,
    /// The cache is full.
    #[error(
        "the cache has {free} of {total} blocks free, and {needed} are needed\n  fix: more blocks, fewer or shorter sequences, or remove one that is done"
    )]
    OutOfBlocks {
        /// How many are asked for.
        needed: usize,
        /// How many there are to give.
        free: usize,
        /// How many there are.
        total: usize,
    },
    /// A sequence of a batch.
    #[error("sequence {id} {}", if *.twice { "is named twice in one call" } else { "is not in the batch" })]
    NoSequence {
        /// Which.
        id: usize,
        /// It is there, and twice.
        twice: bool,
    },
    /// A token that the model does not have.
    #[error("token {token} is outside the vocabulary of {vocabulary}")]
    Token {
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// The tokenizer refused the file or the text.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// An op failed.
    #[error(transparent)]
    Kernel(#[from] kernels_core::Error),
}
