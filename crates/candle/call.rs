//! From candle tensors to views and back: what each function of this crate goes through.
//!
//! A tensor's memory is behind a lock. Each storage is locked once, in the order of their addresses (candle's
//! own order), so that calls on several threads never wait for each other in a circle.

use crate::dtype::{each_storage, ours};
use crate::error::{CandleError, at_edge};
use crate::memory::Fresh;
use candle_core::{CpuStorage, InplaceOp1, Result, Storage, Tensor};
use kernels_core::{DType, Device, Layout, View, ViewMut};
use std::cell::RefCell;

/// An argument and its name.
pub(crate) type In<'t> = (&'static str, &'t Tensor);

/// A result.
pub(crate) enum Out<'t> {
    /// New memory that the kernel writes all of.
    New(DType, Vec<usize>),
    /// A copy of an argument, which the kernel changes.
    Copy(In<'t>),
}

/// Where an argument's elements are, while its storage is locked.
#[derive(Clone, Copy)]
pub(crate) struct Raw {
    pub ptr: *mut u8,
    pub dtype: DType,
    pub layout: Layout,
    pub device: Device,
}

impl Raw {
    fn of(
        op: &'static str,
        (name, tensor): In<'_>,
        base: *mut u8,
        device: Device,
        at: &candle_core::Layout,
    ) -> Result<Raw> {
        let fail = |error| Err(candle_core::Error::wrap(error));
        let Some(dtype) = ours(tensor.dtype()) else {
            let dtype = tensor.dtype().as_str().into();
            return fail(CandleError::Type { op, tensor: name, dtype });
        };
        let Some(layout) = Layout::strided(at.dims(), at.stride()) else {
            let layout = format!("{:?} strides {:?}", at.dims(), at.stride());
            return fail(CandleError::NotContiguous { op, tensor: name, layout });
        };
        Ok(Raw { ptr: base.wrapping_add(at.start_offset() * dtype.block_bytes()), dtype, layout, device })
    }

    /// # Safety
    /// The storage is locked, for reads or writes, for as long as the view lives.
    pub unsafe fn view<'a>(self) -> View<'a> {
        // SAFETY: candle's layout lies inside its storage, whose elements are initialised and aligned.
        unsafe { View::from_raw(self.ptr, self.dtype, self.layout, self.device) }
    }

    /// # Safety
    /// The storage is locked for writes for as long as the view lives, and this is the only view of it.
    pub unsafe fn view_mut<'a>(self) -> ViewMut<'a> {
        // SAFETY: as in `view`; the ops refuse outputs that overlap themselves.
        unsafe { ViewMut::from_raw(self.ptr, self.dtype, self.layout, self.device) }
    }
}

/// One storage, and what of it a call takes.
struct Entry<'t> {
    /// Its address, which orders the locks.
    key: usize,
    arg: In<'t>,
    /// Where its views go: (is it written, index).
    places: Vec<(bool, usize)>,
}

/// Checks that arguments can be used at all, and gathers them by storage.
fn entries<'t>(op: &'static str, reads: &[In<'t>], writes: &[In<'t>]) -> Result<Vec<Entry<'t>>> {
    let mut entries: Vec<Entry<'t>> = Vec::with_capacity(reads.len() + writes.len());
    let all = reads.iter().enumerate().map(|(i, a)| (*a, (false, i)));
    for (arg, place) in all.chain(writes.iter().enumerate().map(|(i, a)| (*a, (true, i)))) {
        let (name, tensor) = arg;
        if tensor.track_op() {
            return Err(candle_core::Error::wrap(CandleError::Tracked { op, tensor: name }));
        }
        let key = match &*tensor.storage_and_layout().0 {
            storage @ Storage::Cpu(_) => std::ptr::from_ref(storage).addr(),
            #[cfg(feature = "candle-cuda")]
            storage @ Storage::Cuda(_) => std::ptr::from_ref(storage).addr(),
            _ => {
                let location = format!("{:?}", tensor.device().location());
                return Err(candle_core::Error::wrap(CandleError::Location { op, tensor: name, location }));
            }
        };
        match entries.iter_mut().find(|e| e.key == key) {
            None => entries.push(Entry { key, arg, places: vec![place] }),
            Some(known) => {
                let written = known.places.iter().any(|p| p.0);
                if written || place.0 {
                    let (tensor, other) = if written { (known.arg.0, name) } else { (name, known.arg.0) };
                    return Err(candle_core::Error::wrap(CandleError::Shared { op, tensor, other }));
                }
                known.places.push(place);
            }
        }
    }
    entries.sort_by_key(|e| e.key);
    Ok(entries)
}

/// Locks every storage and calls `run` with where the arguments are.
fn with_locks(
    op: &'static str,
    reads: &[In<'_>],
    writes: &[In<'_>],
    run: &mut dyn FnMut(&[Raw], &[Raw]) -> Result<()>,
) -> Result<()> {
    let entries = entries(op, reads, writes)?;
    let nowhere =
        Raw { ptr: std::ptr::null_mut(), dtype: DType::U8, layout: Layout::EMPTY, device: Device::cpu() };
    let (mut read, mut written) = (vec![nowhere; reads.len()], vec![nowhere; writes.len()]);
    descend(op, &entries, (reads, writes), (&mut read, &mut written), run)
}

/// Locks the first storage of `entries`, and within that the rest.
fn descend(
    op: &'static str,
    entries: &[Entry<'_>],
    args: (&[In<'_>], &[In<'_>]),
    (read, written): (&mut [Raw], &mut [Raw]),
    run: &mut dyn FnMut(&[Raw], &[Raw]) -> Result<()>,
) -> Result<()> {
    let Some((entry, rest)) = entries.split_first() else { return run(read, written) };
    match entry.places.as_slice() {
        [(true, at)] => {
            let mut body = |base: *mut u8, device: Device, layout: &candle_core::Layout| {
                written[*at] = Raw::of(op, entry.arg, base, device, layout)?;
                descend(op, rest, args, (&mut *read, &mut *written), &mut *run)
            };
            entry.arg.1.inplace_op1(&Hook { op, body: RefCell::new(&mut body) })
        }
        places => {
            let guard = entry.arg.1.storage_and_layout().0;
            let mut of = |base, device| {
                places.iter().try_for_each(|(_, at)| {
                    read[*at] = Raw::of(op, args.0[*at], base, device, args.0[*at].1.layout())?;
                    Ok::<_, candle_core::Error>(())
                })
            };
            match &*guard {
                Storage::Cpu(storage) => {
                    of(each_storage!(storage, v => v.as_ptr().cast::<u8>().cast_mut()), Device::cpu())?;
                    descend(op, rest, args, (read, written), run)
                }
                #[cfg(feature = "candle-cuda")]
                Storage::Cuda(storage) => {
                    let (device, stream) =
                        (crate::cuda::device(&storage.device)?, storage.device.cuda_stream());
                    // Until the kernel is queued, so that candle knows of the read.
                    let (base, _reading) = crate::cuda::read(storage, &stream);
                    of(base, device)?;
                    descend(op, rest, args, (read, written), run)
                }
                _ => descend(op, rest, args, (read, written), run),
            }
        }
    }
}

/// candle's way to a storage that is locked for writes.
struct Hook<'b> {
    op: &'static str,
    body: RefCell<&'b mut dyn FnMut(*mut u8, Device, &candle_core::Layout) -> Result<()>>,
}

impl InplaceOp1 for Hook<'_> {
    fn name(&self) -> &'static str {
        self.op
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &candle_core::Layout) -> Result<()> {
        let base = each_storage!(storage, v => v.as_mut_ptr().cast::<u8>());
        (self.body.borrow_mut())(base, Device::cpu(), layout)
    }

    #[cfg(feature = "candle-cuda")]
    fn cuda_fwd(&self, storage: &mut candle_core::CudaStorage, layout: &candle_core::Layout) -> Result<()> {
        let (device, stream) = (crate::cuda::device(&storage.device)?, storage.device.cuda_stream());
        let (base, _writing) = crate::cuda::write(storage, &stream);
        (self.body.borrow_mut())(base, device, layout)
    }
}

/// Calls `run` with views of `reads` and of new tensors for `outs`, and gives those.
pub(crate) fn compute<const N: usize, const M: usize>(
    op: &'static str,
    reads: [In<'_>; N],
    outs: [Out<'_>; M],
    run: impl FnOnce([View<'_>; N], [ViewMut<'_>; M]) -> kernels_core::Result<()>,
) -> Result<[Tensor; M]> {
    let copied = outs.iter().find_map(|o| if let Out::Copy(arg) = o { Some(arg.1) } else { None });
    let like = reads.first().map(|arg| arg.1).or(copied);
    compute_on(op, like.map_or(&candle_core::Device::Cpu, Tensor::device), reads, outs, run)
}

/// The same with new tensors on a device of the caller's choice, where no argument says it.
pub(crate) fn compute_on<const N: usize, const M: usize>(
    op: &'static str,
    on: &candle_core::Device,
    reads: [In<'_>; N],
    outs: [Out<'_>; M],
    run: impl FnOnce([View<'_>; N], [ViewMut<'_>; M]) -> kernels_core::Result<()>,
) -> Result<[Tensor; M]> {
    let mut all = reads.to_vec();
    all.extend(outs.iter().filter_map(|o| if let Out::Copy(arg) = o { Some(*arg) } else { None }));
    let (mut run, mut results) = (Some(run), Vec::with_capacity(M));
    with_locks(op, &all, &[], &mut |raws, _| {
        let (mut fresh, mut copies) = (Vec::with_capacity(M), raws[N..].iter());
        for out in &outs {
            match (out, &mut copies) {
                (Out::New(dtype, shape), _) => fresh.push(Fresh::new(op, on, *dtype, shape)?),
                (Out::Copy(_), copies) => {
                    let Some(source) = copies.next() else { continue };
                    let copy = Fresh::new(op, on, source.dtype, source.layout.shape())?;
                    // SAFETY: the source is locked, and the memory is new and this view's own.
                    unsafe { kernels_ops::elementwise::copy_into(source.view(), copy.raw.view_mut()) }
                        .map_err(at_edge)?;
                    fresh.push(copy);
                }
            }
        }
        // SAFETY: the storages are locked until this returns, and the new memory is nobody else's.
        let (views, outputs) = unsafe {
            (std::array::from_fn(|i| raws[i].view()), std::array::from_fn(|i| fresh[i].raw.view_mut()))
        };
        if let Some(run) = run.take() {
            run(views, outputs).map_err(at_edge)?;
        }
        // SAFETY: an op that succeeds has written all of its outputs.
        results.extend(fresh.into_iter().map(|f| unsafe { f.into_tensor() }));
        Ok(())
    })?;
    <[Tensor; M]>::try_from(results).map_err(|_| candle_core::Error::msg("a result for each output"))
}

/// Calls `run` with views of `reads`, and of `writes` to change in place.
pub(crate) fn update<const N: usize, const M: usize>(
    op: &'static str,
    reads: [In<'_>; N],
    writes: [In<'_>; M],
    run: impl FnOnce([View<'_>; N], [ViewMut<'_>; M]) -> kernels_core::Result<()>,
) -> Result<()> {
    let mut run = Some(run);
    with_locks(op, &reads, &writes, &mut |read, written| {
        // SAFETY: the storages are locked until this returns, those of `written` for writes and apart from all
        // others.
        let (views, outputs) = unsafe {
            (std::array::from_fn(|i| read[i].view()), std::array::from_fn(|i| written[i].view_mut()))
        };
        match run.take() {
            Some(run) => run(views, outputs).map_err(at_edge),
            None => Ok(()),
        }
    })
}

/// Our element type of an argument.
pub(crate) fn dtype_of(op: &'static str, (name, tensor): In<'_>) -> Result<DType> {
    let unknown = || CandleError::Type { op, tensor: name, dtype: tensor.dtype().as_str().into() };
    ours(tensor.dtype()).ok_or_else(|| candle_core::Error::wrap(unknown()))
}

/// Our element type for a result that the caller names the type of.
pub(crate) fn result_type(op: &'static str, dtype: candle_core::DType) -> Result<DType> {
    let unknown = || CandleError::Type { op, tensor: "out", dtype: dtype.as_str().into() };
    ours(dtype).ok_or_else(|| candle_core::Error::wrap(unknown()))
}

/// A new tensor of the type of an argument, and of this shape.
pub(crate) fn like<'t>(op: &'static str, arg: In<'_>, shape: Vec<usize>) -> Result<Out<'t>> {
    Ok(Out::New(dtype_of(op, arg)?, shape))
}

/// The shape of `tensor` with another last dimension.
pub(crate) fn with_last(tensor: &Tensor, last: usize) -> Vec<usize> {
    let mut shape = tensor.dims().to_vec();
    shape.pop();
    shape.push(last);
    shape
}
