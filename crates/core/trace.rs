//! An in-process recorder of what ran. Off, it costs a call nothing: who listens is in the word that calls look at anyway.

use crate::call::CLOCK;
use crate::device::Device;
use crate::dtype::DType;
use crate::names::DeviceId;
use crate::op::{Checked, Kernel, Op};
use crate::policy::Level;
use crate::slot;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// One kernel call.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The op.
    pub op: &'static str,
    /// The kernel's id.
    pub kernel: String,
    /// Where it ran.
    pub device: DeviceId,
    /// Who decided.
    pub level: Level,
    /// Name, element type and shape of each tensor.
    pub tensors: Vec<(&'static str, DType, Vec<usize>)>,
}

static RECORDERS: AtomicUsize = AtomicUsize::new(0);
static RECORDS: Mutex<Vec<Record>> = Mutex::new(Vec::new());

fn records() -> MutexGuard<'static, Vec<Record>> {
    RECORDS.lock().unwrap_or_else(|e| e.into_inner())
}

/// Records every kernel call of the process while it lives.
#[derive(Debug)]
pub struct Recorder(usize);

impl Recorder {
    /// Starts recording.
    #[allow(clippy::new_without_default)]
    pub fn start() -> Recorder {
        let all = records();
        RECORDERS.fetch_add(1, Ordering::Relaxed);
        slot::listen(&CLOCK);
        Recorder(all.len())
    }

    /// What ran since the start.
    pub fn records(&self) -> Vec<Record> {
        records()[self.0..].to_vec()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let mut all = records();
        slot::unlisten(&CLOCK);
        if RECORDERS.fetch_sub(1, Ordering::Relaxed) == 1 {
            *all = Vec::new();
        }
    }
}

/// Whether a recorder lives.
pub(crate) fn recording() -> bool {
    RECORDERS.load(Ordering::Relaxed) != 0
}

#[cold]
pub(crate) fn record<O: Op>(kernel: &Kernel<O>, device: Device, checked: &Checked<'_, O>, level: Level) {
    let mut tensors = Vec::new();
    O::tensors(&checked.args, &mut |name, dtype, layout, _| {
        tensors.push((name, dtype, layout.shape().to_vec()))
    });
    let entry = Record { op: O::NAME, kernel: kernel.spec.id(), device: device.id(), level, tensors };
    records().push(entry);
}
