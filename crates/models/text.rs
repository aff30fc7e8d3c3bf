//! Text to tokens and back, by the vocabulary in the model's own file.

use crate::error::{ModelError, Result};
use crate::gguf::{Gguf, Value};
use shimmytok::{EncodeOptions, Tokenizer};
use std::io::{Read, Seek};

/// A model's tokenizer.
pub struct Text {
    tokenizer: Tokenizer,
    turn_end: Option<u32>,
}

impl Text {
    /// Reads the vocabulary.
    ///
    /// # Errors
    /// There is none, or none that the tokenizer knows, or arrays that would take more memory than the file.
    pub fn read<R: Read + Seek>(file: &mut Gguf<R>) -> Result<Text> {
        let fail = |e: shimmytok::Error| ModelError::Tokenizer(e.to_string());
        if !file.arrays_are_small() {
            let detail = "its metadata has arrays that are large beside the file".into();
            return Err(ModelError::Damaged { detail });
        }
        special_tokens_exist(file)?;
        let tokenizer = Tokenizer::from_reader(file.rewound()?).map_err(fail)?;
        // A chat's turn ends before the text does, by a token that not every file names.
        let turn_end = ["<end_of_turn>", "<|im_end|>", "<|eot_id|>"].into_iter().find_map(|name| {
            let options = EncodeOptions::with_parse_special(false, true);
            let ids = tokenizer.encode_with_options(name, &options).ok()?;
            <[u32; 1]>::try_from(ids).ok().map(|[id]| id)
        });
        Ok(Text { tokenizer, turn_end })
    }

    /// Tokens of a text, with the begin-of-text token where the file asks for one; names of special tokens in
    /// the text (`<|im_start|>`) become those tokens.
    ///
    /// # Errors
    /// The tokenizer's.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let options = EncodeOptions::with_parse_special(true, true);
        self.tokenizer.encode_with_options(text, &options).map_err(|e| ModelError::Tokenizer(e.to_string()))
    }

    /// Text of tokens, special ones left out.
    ///
    /// # Errors
    /// The tokenizer's.
    pub fn decode(&self, tokens: &[u32]) -> Result<String> {
        // A model may have more rows of logits than its vocabulary has tokens.
        let known = |t: &u32| (*t as usize) < self.tokenizer.vocab_size();
        let tokens: Vec<u32> = tokens.iter().copied().filter(known).collect();
        self.tokenizer.decode(&tokens, true).map_err(|e| ModelError::Tokenizer(e.to_string()))
    }

    /// The tokens that end a text: the vocabulary's own, and the end of a turn where it has one.
    pub fn ends(&self) -> Vec<u32> {
        let mut ends = vec![self.tokenizer.eos_token()];
        ends.extend(self.turn_end);
        ends
    }

    /// The part of the text of `tokens` that comes after the first `shown` bytes, as far as it is settled:
    /// bytes of a character that is not complete yet wait.
    ///
    /// # Errors
    /// The tokenizer's.
    pub fn settled(&self, tokens: &[u32], shown: usize) -> Result<String> {
        let text = self.decode(tokens)?;
        let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        Ok(whole.get(shown..).unwrap_or_default().to_string())
    }
}

/// The tokenizer takes these for granted.
fn special_tokens_exist<R: Read + Seek>(file: &Gguf<R>) -> Result<()> {
    let tokens = match file.get("tokenizer.ggml.tokens") {
        Some(Value::Array(n)) if *n > 2 => *n,
        _ => return Err(ModelError::Tokenizer("the file has no vocabulary (tokenizer.ggml.tokens)".into())),
    };
    for name in ["bos", "eos"] {
        let key = format!("tokenizer.ggml.{name}_token_id");
        if let Some(id) = file.get(&key)
            && !matches!(id, Value::Int(id) if (0..i128::from(tokens)).contains(id))
        {
            return Err(ModelError::Key { key, detail: format!("it is {id:?}, of {tokens} tokens") });
        }
    }
    Ok(())
}
