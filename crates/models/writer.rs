//! Writing GGUF (version 3): for the demo model, and for tests.

use crate::gguf::GGML_TYPES;
use kernels_core::{Result, Tensor};

/// Metadata and tensors that become a file.
#[derive(Default)]
pub struct GgufWriter {
    keys: Vec<u8>,
    key_count: u64,
    infos: Vec<u8>,
    tensor_count: u64,
    data: Vec<u8>,
}

const ALIGNMENT: usize = 32;

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

impl GgufWriter {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn key(&mut self, key: &str, kind: u32) -> &mut Vec<u8> {
        put_text(&mut self.keys, key);
        self.keys.extend(kind.to_le_bytes());
        self.key_count += 1;
        &mut self.keys
    }

    /// A u32.
    pub fn int(&mut self, key: &str, value: u32) -> &mut Self {
        self.key(key, 4).extend(value.to_le_bytes());
        self
    }

    /// An f32.
    pub fn float(&mut self, key: &str, value: f32) -> &mut Self {
        self.key(key, 6).extend(value.to_le_bytes());
        self
    }

    /// A boolean.
    pub fn bool(&mut self, key: &str, value: bool) -> &mut Self {
        self.key(key, 7).push(value.into());
        self
    }

    /// A string.
    pub fn text(&mut self, key: &str, value: &str) -> &mut Self {
        put_text(self.key(key, 8), value);
        self
    }

    /// An array of strings.
    pub fn texts(&mut self, key: &str, values: &[String]) -> &mut Self {
        let out = self.key(key, 9);
        out.extend(8u32.to_le_bytes());
        out.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|v| put_text(out, v));
        self
    }

    /// An array of i32.
    pub fn ints(&mut self, key: &str, values: &[i32]) -> &mut Self {
        let out = self.key(key, 9);
        out.extend(5u32.to_le_bytes());
        out.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|v| out.extend(v.to_le_bytes()));
        self
    }

    /// A tensor.
    ///
    /// # Errors
    /// It cannot be copied from its device.
    pub fn tensor(&mut self, name: &str, tensor: &Tensor) -> Result<&mut Self> {
        let kind = GGML_TYPES.iter().find(|(_, d)| *d == tensor.dtype()).map_or(u32::MAX, |(n, _)| *n);
        put_text(&mut self.infos, name);
        self.infos.extend((tensor.shape().len() as u32).to_le_bytes());
        tensor.shape().iter().rev().for_each(|d| self.infos.extend((*d as u64).to_le_bytes()));
        self.infos.extend(kind.to_le_bytes());
        self.infos.extend((self.data.len() as u64).to_le_bytes());
        self.data.extend(tensor.to_bytes()?);
        self.data.resize(self.data.len().next_multiple_of(ALIGNMENT), 0);
        self.tensor_count += 1;
        Ok(self)
    }

    /// The file.
    pub fn finish(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend(self.tensor_count.to_le_bytes());
        out.extend(self.key_count.to_le_bytes());
        out.extend(&self.keys);
        out.extend(&self.infos);
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        out.extend(&self.data);
        out
    }
}
