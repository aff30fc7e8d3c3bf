//! CUDA graphs: record the kernels of some calls once, replay them with one launch.

use crate::context::Context;
use crate::words::words;
use cudarc::driver::sys;
use kernels_core::{Device, Error, RunError};

/// Recorded work. Its tensors must be alive, and where they were, at each replay.
pub struct Graph {
    device: Device,
    executable: sys::CUgraphExec,
}

// SAFETY: CUDA's handles may be used from any thread.
unsafe impl Send for Graph {}

fn failed(device: Device, detail: String) -> Error {
    RunError::LaunchFailed { kernel: "(graph)".into(), device: device.id(), detail }.into()
}

/// Records what `calls` queue on `device` instead of running it. Run them once before, so that every kernel is loaded:
/// nothing may be loaded, allocated or waited for inside.
///
/// # Errors
/// What `calls` say, or the driver, where something inside cannot be recorded.
pub fn capture(device: Device, calls: impl FnOnce() -> Result<(), Error>) -> Result<Graph, Error> {
    let fail = |detail| failed(device, detail);
    let context = Context::of(device.id().index).map_err(fail)?;
    let _current = context.enter().map_err(|e| fail(e.to_string()))?;
    let stream = context.stream();
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the stream is live; the graph is destroyed once it was instantiated.
    unsafe {
        sys::cuStreamBeginCapture_v2(stream, mode).result().map_err(|e| fail(words(e)))?;
        let outcome = calls();
        // What kernels had as scratch memory is part of the record.
        device.keep_workspaces();
        let ended = sys::cuStreamEndCapture(stream, &mut graph).result();
        outcome?;
        ended.map_err(|e| fail(words(e)))?;
        let made = sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0).result();
        let _ = sys::cuGraphDestroy(graph).result();
        made.map_err(|e| fail(words(e)))?;
    }
    Ok(Graph { device, executable })
}

impl Graph {
    /// Queues all of it.
    ///
    /// # Safety
    /// Every tensor that the recorded calls took is alive, and borrowed as those calls borrowed it.
    ///
    /// # Errors
    /// In the driver's words.
    pub unsafe fn launch(&self) -> Result<(), Error> {
        let fail = |detail| failed(self.device, detail);
        let context = Context::of(self.device.id().index).map_err(fail)?;
        let _current = context.enter().map_err(|e| fail(e.to_string()))?;
        // SAFETY: the executable lives as long as this value.
        unsafe { sys::cuGraphLaunch(self.executable, context.stream()) }.result().map_err(|e| fail(words(e)))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(context) = Context::of(self.device.id().index)
            && let Ok(_current) = context.enter()
        {
            // SAFETY: made by `capture`, destroyed once; the driver keeps what still runs.
            let _ = unsafe { sys::cuGraphExecDestroy(self.executable) }.result();
        }
    }
}
