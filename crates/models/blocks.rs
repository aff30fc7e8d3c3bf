//! Blocks of a paged cache, handed out and taken back.

use crate::error::{ModelError, Result};

/// Tokens in a block of the cache.
pub const BLOCK: usize = 64;

/// Which blocks are free.
#[derive(Clone, Debug)]
pub struct Blocks {
    total: usize,
    /// The next one to hand out is the last.
    free: Vec<i32>,
}

impl Blocks {
    /// `total` blocks, all free.
    pub fn new(total: usize) -> Blocks {
        Blocks { total, free: (0..total as i32).rev().collect() }
    }

    /// How many blocks `tokens` take.
    pub fn needed(tokens: usize) -> usize {
        tokens.div_ceil(BLOCK)
    }

    /// How many are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Adds `count` blocks to `owned`.
    ///
    /// # Errors
    /// There are not as many; then nothing changes.
    pub fn take(&mut self, count: usize, owned: &mut Vec<i32>) -> Result<()> {
        let Some(left) = self.free.len().checked_sub(count) else {
            return Err(ModelError::OutOfBlocks { needed: count, free: self.free.len(), total: self.total });
        };
        owned.extend(self.free.drain(left..).rev());
        Ok(())
    }

    /// Takes back all of `owned`.
    pub fn give_back(&mut self, owned: Vec<i32>) {
        self.free.extend(owned.into_iter().rev());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_handed_out_once_and_come_back() {
        let (mut blocks, mut a, mut b) = (Blocks::new(5), Vec::new(), Vec::new());
        blocks.take(2, &mut a).unwrap();
        blocks.take(3, &mut b).unwrap();
        assert_eq!((a.as_slice(), b.as_slice()), (&[0, 1][..], &[2, 3, 4][..]));
        let error = blocks.take(1, &mut a).unwrap_err();
        assert!(matches!(error, ModelError::OutOfBlocks { needed: 1, free: 0, total: 5 }), "{error}");
        assert_eq!(a.len(), 2, "a refusal changes nothing");
        blocks.give_back(b);
        assert_eq!(blocks.free(), 3);
        blocks.take(1, &mut a).unwrap();
        assert_eq!(a, [0, 1, 2]);
        assert_eq!((Blocks::needed(0), Blocks::needed(64), Blocks::needed(65)), (0, 1, 2));
    }
}
