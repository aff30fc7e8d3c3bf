//! Tokens from a model, one after the other.

use crate::error::{ModelError, Result};
use crate::llama::Llama;
use kernels_ops::sampling::{Draw, sample};
use std::time::{Duration, Instant};

/// What to generate.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Tokens to start from.
    pub prompt: &'a [u32],
    /// How many to add at most.
    pub max_tokens: usize,
    /// How to draw; the seed counts up with each token.
    pub draw: Draw,
    /// Tokens that end the text.
    pub stop: &'a [u32],
    /// Room for prompt and new tokens; the model's own at most.
    pub context: usize,
}

/// What happened, for whoever watches.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The prompt is in.
    Prefilled,
    /// A token came; all so far.
    Token(&'a [u32]),
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Generated {
    /// The new tokens, without the one that ended the text.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Time for the prompt.
    pub prefill: Duration,
    /// Time for the tokens after the first, and how many forward passes that was.
    pub decode: (Duration, usize),
    /// Whether a stop token ended it.
    pub stopped: bool,
}

/// Generates. `watch` is told of each step.
///
/// # Errors
/// A prompt that is empty or too long, or an op's failure.
pub fn generate(
    model: &Llama,
    request: &Request<'_>,
    mut watch: impl FnMut(Step<'_>) -> Result<()>,
) -> Result<Generated> {
    let (prompt, room) = (request.prompt.len(), request.context.min(model.config().context));
    if prompt == 0 {
        return Err(ModelError::EmptyPrompt);
    }
    if prompt > room {
        let limited = room < model.config().context;
        return Err(ModelError::PromptTooLong { prompt, context: room, limited });
    }
    let max_tokens = request.max_tokens.min(room - prompt + 1);
    let mut session = model.session((prompt + max_tokens.saturating_sub(1)).min(room))?;
    let mut done = Generated { prompt_tokens: prompt, ..Generated::default() };
    let start = Instant::now();
    let mut feed: Vec<u32> = request.prompt.to_vec();
    while done.tokens.len() < max_tokens {
        let step = Instant::now();
        let logits = session.feed(&feed)?;
        let seed = request.draw.seed.wrapping_add(done.tokens.len() as u64);
        let id = sample(logits, Draw { seed, ..request.draw })?.to_vec::<i32>()?[0] as u32;
        if done.prefill.is_zero() {
            done.prefill = start.elapsed();
            watch(Step::Prefilled)?;
        } else {
            done.decode.0 += step.elapsed();
            done.decode.1 += 1;
        }
        if request.stop.contains(&id) {
            done.stopped = true;
            break;
        }
        done.tokens.push(id);
        watch(Step::Token(&done.tokens))?;
        feed = vec![id];
    }
    Ok(done)
}
