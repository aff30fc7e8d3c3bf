//! One sequence: a [`Batch`] of one.

use crate::batch::{Batch, Room, SequenceId};
use crate::error::Result;
use crate::model::Model;
use kernels_core::Tensor;

/// One sequence, its paged keys and values, and the buffers of a forward pass.
pub struct Session<'m> {
    batch: Batch<'m>,
    id: SequenceId,
}

impl<'m> Session<'m> {
    pub(crate) fn new(model: &'m Model, capacity: usize) -> Result<Session<'m>> {
        let mut batch = Batch::new(model, Room::for_sequences(1, capacity))?;
        let id = batch.add();
        Ok(Session { batch, id })
    }

    /// Tokens so far.
    pub fn len(&self) -> usize {
        self.batch.len(self.id)
    }

    /// Whether nothing was fed yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Feeds tokens and gives the logits `[1, vocabulary]` after the last.
    ///
    /// # Errors
    /// No tokens, more than there is room for, one outside the vocabulary, or an op's failure.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<&Tensor> {
        self.batch.feed(&[(self.id, tokens)])
    }
}
