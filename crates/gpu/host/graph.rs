//! Graphs: record the kernels of some calls once, replay them with one launch.

use crate::host::context::{Context, Current};
use crate::host::vendor::{Failure, Handle, Vendor};
use kernels_core::{Device, Error, RunError};
use std::marker::PhantomData;

/// Recorded work. Its tensors must be alive, and where they were, at each replay.
pub struct Graph<V: Vendor> {
    device: Device,
    executable: Handle,
    vendor: PhantomData<V>,
}

// SAFETY: a driver's handles may be used from any thread.
unsafe impl<V: Vendor> Send for Graph<V> {}

fn failed(device: Device, detail: String) -> Error {
    RunError::LaunchFailed { kernel: "(graph)".into(), device: device.id(), detail }.into()
}

/// The device's context, current on this thread.
fn entered<V: Vendor>(device: Device) -> Result<(&'static Context<V>, Current<V>), Error> {
    if device.id().kind != V::KIND {
        return Err(failed(device, format!("graphs of this driver are for {} devices", V::KIND)));
    }
    let context = Context::<V>::of(device.id().index).map_err(|e| failed(device, e))?;
    let current = context.enter().map_err(|e| failed(device, e.to_string()))?;
    Ok((context, current))
}

/// Records what `calls` queue on `device` instead of running it. Run them once before, so that every kernel is loaded:
/// nothing may be loaded, allocated or waited for inside.
///
/// # Errors
/// What `calls` say, or the driver, where something inside cannot be recorded; a device of another driver.
pub fn capture<V: Vendor>(
    device: Device,
    calls: impl FnOnce() -> Result<(), Error>,
) -> Result<Graph<V>, Error> {
    let (context, _current) = entered::<V>(device)?;
    let fail = |e: V::Error| failed(device, e.words());
    let stream = context.stream();
    // SAFETY: the stream is live; the graph is used once.
    unsafe {
        V::begin_capture(stream).map_err(fail)?;
        let outcome = calls();
        // What kernels had as scratch memory is part of the record.
        device.keep_workspaces();
        let ended = V::end_capture(stream).map(|graph| {
            let executable = V::instantiate(graph);
            let _ = V::drop_recorded(graph);
            executable
        });
        if outcome.is_err()
            && let Ok(Ok(executable)) = ended
        {
            let _ = V::drop_graph(executable);
        }
        outcome?;
        let executable = ended.flatten().map_err(fail)?;
        Ok(Graph { device, executable, vendor: PhantomData })
    }
}

impl<V: Vendor> Graph<V> {
    /// Queues all of it.
    ///
    /// # Safety
    /// Every tensor that the recorded calls took is alive, and borrowed as those calls borrowed it.
    ///
    /// # Errors
    /// In the driver's words.
    pub unsafe fn launch(&self) -> Result<(), Error> {
        let (context, _current) = entered::<V>(self.device)?;
        // SAFETY: the executable lives as long as this value.
        unsafe { V::launch_graph(self.executable, context.stream()) }
            .map_err(|e| failed(self.device, e.words()))
    }
}

impl<V: Vendor> Drop for Graph<V> {
    fn drop(&mut self) {
        if let Ok((_, _current)) = entered::<V>(self.device) {
            // SAFETY: made by `capture`, destroyed once; the driver keeps what still runs.
            let _ = unsafe { V::drop_graph(self.executable) };
        }
    }
}
