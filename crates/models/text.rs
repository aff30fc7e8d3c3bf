//! Text to tokens and back, by the vocabulary in the model's own file.

use crate::error::{ModelError, Result};
use crate::gguf::Gguf;
use shimmytok::{EncodeOptions, Tokenizer};
use std::io::{Read, Seek};

/// A model's tokenizer.
pub struct Text {
    tokenizer: Tokenizer,
}

impl Text {
    /// Reads the vocabulary.
    ///
    /// # Errors
    /// There is none, or none that the tokenizer knows.
    pub fn read<R: Read + Seek>(file: &mut Gguf<R>) -> Result<Text> {
        let fail = |e: shimmytok::Error| ModelError::Tokenizer(e.to_string());
        Ok(Text { tokenizer: Tokenizer::from_reader(file.rewound()?).map_err(fail)? })
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
        self.tokenizer.decode(tokens, true).map_err(|e| ModelError::Tokenizer(e.to_string()))
    }

    /// The token that ends a text.
    pub fn eos(&self) -> u32 {
        self.tokenizer.eos_token()
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
