//! Tokens from a model, one after the other, for one prompt or for several at once.

use crate::batch::{Batch, Room, SequenceId};
use crate::blocks::Blocks;
use crate::error::{ModelError, Result};
use crate::model::Model;
use kernels_core::DType;
use kernels_ops::sampling::{Draw, sample};
use std::collections::VecDeque;
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

impl Request<'_> {
    /// Tokens that prompt and new tokens need room for.
    fn room(&self, model: &Model) -> Result<usize> {
        let (prompt, room) = (self.prompt.len(), self.context.min(model.config().context));
        if prompt == 0 {
            return Err(ModelError::EmptyPrompt);
        }
        if prompt > room {
            let limited = room < model.config().context;
            return Err(ModelError::PromptTooLong { prompt, context: room, limited });
        }
        // The last token is not fed.
        Ok((prompt + self.max_tokens.saturating_sub(1)).min(room))
    }
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

/// How much of the cache requests may use together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Blocks of 64 tokens; without a number, as many as all requests need.
    pub blocks: Option<usize>,
    /// Element type of the cache.
    pub cache: DType,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { blocks: None, cache: DType::F16 }
    }
}

/// Generates for one request. `watch` is told of each step.
///
/// # Errors
/// A prompt that is empty or too long, or an op's failure.
pub fn generate(
    model: &Model,
    request: &Request<'_>,
    mut watch: impl FnMut(Step<'_>) -> Result<()>,
) -> Result<Generated> {
    let mut done =
        generate_all(model, std::slice::from_ref(request), Limits::default(), |_, step| watch(step))?;
    Ok(done.pop().unwrap_or_default())
}

/// A request under way.
struct Active {
    request: usize,
    id: SequenceId,
    feed: Vec<u32>,
    started: Instant,
}

/// Generates for several requests at once: prompts in one pass, then a token of each. A request starts when
/// there are blocks for all of it, so that none is stopped half way; until then it waits. `watch` is told of
/// each step, and of whose it is.
///
/// # Errors
/// A prompt that is empty or too long, a request that needs more blocks than there are, or an op's failure.
pub fn generate_all(
    model: &Model,
    requests: &[Request<'_>],
    limits: Limits,
    mut watch: impl FnMut(usize, Step<'_>) -> Result<()>,
) -> Result<Vec<Generated>> {
    let rooms = requests.iter().map(|r| r.room(model)).collect::<Result<Vec<_>>>()?;
    let needs: Vec<usize> = rooms.iter().map(|r| Blocks::needed(*r)).collect();
    let blocks = limits.blocks.unwrap_or(needs.iter().sum());
    if let Some(needed) = needs.iter().copied().find(|n| *n > blocks) {
        return Err(ModelError::OutOfBlocks { needed, free: blocks, total: blocks });
    }
    let longest = rooms.iter().copied().max().unwrap_or(0);
    let mut batch = model.batch(Room { blocks, longest, cache: limits.cache })?;
    let mut done: Vec<Generated> = requests
        .iter()
        .map(|r| Generated { prompt_tokens: r.prompt.len(), ..Generated::default() })
        .collect();
    let mut waiting: VecDeque<usize> = (0..requests.len()).filter(|i| requests[*i].max_tokens > 0).collect();
    let (mut active, mut promised) = (Vec::<Active>::new(), 0);
    while !waiting.is_empty() || !active.is_empty() {
        while let Some(request) = waiting.pop_front_if(|i| promised + needs[*i] <= blocks) {
            promised += needs[request];
            let (id, feed) = (batch.add(), requests[request].prompt.to_vec());
            active.push(Active { request, id, feed, started: Instant::now() });
        }
        step(&mut batch, requests, &mut active, &mut done, &mut watch)?;
        active.retain(|a| {
            let (request, so_far) = (&requests[a.request], &done[a.request]);
            let most = request.max_tokens.min(rooms[a.request] - request.prompt.len() + 1);
            let goes_on = !so_far.stopped && so_far.tokens.len() < most;
            if !goes_on {
                promised -= needs[a.request];
                batch.remove(a.id);
            }
            goes_on
        });
    }
    Ok(done)
}

/// One pass, and a token of each request.
fn step(
    batch: &mut Batch<'_>,
    requests: &[Request<'_>],
    active: &mut [Active],
    done: &mut [Generated],
    watch: &mut impl FnMut(usize, Step<'_>) -> Result<()>,
) -> Result<()> {
    let start = Instant::now();
    let feeds: Vec<_> = active.iter().map(|a| (a.id, a.feed.as_slice())).collect();
    let logits = batch.feed(&feeds)?;
    let mut drawn = Vec::new();
    for (row, a) in active.iter().enumerate() {
        let draw = requests[a.request].draw;
        let seed = draw.seed.wrapping_add(done[a.request].tokens.len() as u64);
        // A row by itself draws as it would alone.
        let row = logits.view().narrow(0, row, 1).unwrap_or_else(|| unreachable!("a row for each request"));
        drawn.push(sample(row, Draw { seed, ..draw })?.to_vec::<i32>()?[0] as u32);
    }
    for (a, id) in active.iter_mut().zip(drawn) {
        let so_far = &mut done[a.request];
        if so_far.prefill.is_zero() {
            so_far.prefill = a.started.elapsed();
            watch(a.request, Step::Prefilled)?;
        } else {
            so_far.decode.0 += start.elapsed();
            so_far.decode.1 += 1;
        }
        if requests[a.request].stop.contains(&id) {
            so_far.stopped = true;
            continue;
        }
        so_far.tokens.push(id);
        watch(a.request, Step::Token(&so_far.tokens))?;
        a.feed = vec![id];
    }
    Ok(())
}
