//! Other libraries' implementations of the same calls, timed in turns with the kernels here.

use serde::Serialize;

/// A call, as far as another library needs to know it.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// Op.
    pub op: &'static str,
    /// Case, which says what the tensors do not.
    pub case: String,
    /// The case's tensors, in the contract's order.
    pub tensors: Vec<CallTensor>,
    /// Host threads.
    pub threads: usize,
}

/// A tensor of a call.
#[derive(Clone, Debug, Serialize)]
pub struct CallTensor {
    /// Element type.
    pub dtype: &'static str,
    /// Dimensions.
    pub shape: Vec<usize>,
}

/// Another library.
pub trait Peer {
    /// Its name, with a version.
    fn name(&self) -> &str;

    /// Makes ready for a call, and says what it is there, or else why it has no such thing.
    ///
    /// # Errors
    /// It stopped working.
    fn prepare(&mut self, call: &Call) -> Result<Result<String, String>, String>;

    /// Seconds for one of the calls that it was made ready for, measured over about `seconds`.
    ///
    /// # Errors
    /// It stopped working.
    fn time(&mut self, seconds: f64) -> Result<f64, String>;
}

/// What a peer did with a call.
#[derive(Clone, Debug, Serialize)]
pub struct PeerTime {
    /// The peer.
    pub peer: String,
    /// What it ran, or why it did not.
    pub note: String,
    /// Median microseconds for a call; none where it did not run.
    pub median_us: Option<f64>,
}
