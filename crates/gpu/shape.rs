//! How many threads a row is worth.

use crate::{Gpu, Grid, Runtime};
use kernels_core::{DType, RunError, View};

/// Threads of a block that works on one row of `cols` elements, 16 bytes a thread and turn: a power of two from one
/// wavefront to `most`.
pub(crate) fn threads_for(cols: usize, dtype: DType, most: u32) -> u32 {
    let turns = (cols * dtype.block_bytes()).div_ceil(16);
    (turns.clamp(64, most as usize) as u32).next_power_of_two().min(most)
}

/// The number of a type in kernel sources.
pub(crate) fn code(dtype: DType) -> u16 {
    dtype as u16
}

/// The same of an index tensor, as kernels take it beside its pointer.
pub(crate) fn index_type(view: &View<'_>) -> i32 {
    code(view.dtype()).into()
}

/// The error of a call that no grid can hold.
#[cold]
pub(crate) fn too_large<R: Runtime>(gpu: &Gpu<'_, R>, what: &str) -> RunError {
    RunError::LaunchFailed {
        kernel: gpu.op().into(),
        device: gpu.ctx().device.id(),
        detail: format!("more {what} than a grid has room for; split the call"),
    }
}

/// A grid for elementwise work on rows: along x the row, 16 bytes a thread, along y the rows; kernels go round both.
pub(crate) fn rows_grid(rows: usize, cols: usize, dtype: DType) -> Grid {
    const THREADS: usize = 128;
    let turns = (cols * dtype.block_bytes()).div_ceil(16);
    let blocks = turns.div_ceil(THREADS).clamp(1, 1024) as u32;
    Grid { blocks: [blocks, rows.clamp(1, 65535) as u32, 1], threads: THREADS as u32, shared: 0 }
}
