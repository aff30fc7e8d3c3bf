//! GGUF files and the model families that prove the ops on real weights: every tensor operation of a
//! forward pass goes through the registry.

mod config;
mod demo;
mod error;
mod generate;
mod gguf;
mod llama;
mod text;
mod writer;

pub use config::Config;
pub use demo::demo_gguf;
pub use error::{ModelError, Result};
pub use generate::{Generated, Request, Step, generate};
pub use gguf::{Gguf, Value};
pub use llama::{Llama, OPS, Session};
pub use text::Text;
pub use writer::GgufWriter;
