//! GGUF files and the model families that prove the ops on real weights: every tensor operation of a
//! forward pass goes through the registry.

mod batch;
mod blocks;
mod buffers;
mod config;
mod demo;
mod error;
mod forward;
mod generate;
mod gguf;
mod model;
mod session;
mod text;
mod writer;

pub use batch::{Batch, Room, SequenceId};
pub use blocks::Blocks;
pub use config::{ARCHITECTURES, Config, Gate};
pub use demo::demo_gguf;
pub use error::{ModelError, Result};
pub use generate::{Generated, Limits, Request, Step, generate, generate_all};
pub use gguf::{Gguf, Value};
pub use model::Model;
pub use session::Session;
pub use text::Text;
pub use writer::GgufWriter;
