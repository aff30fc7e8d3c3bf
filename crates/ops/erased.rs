//! A contract without its type: what runs kernels on its cases.

use crate::contract::{AnyCase, AnyContract, Case, Contract, Cost, Outcome, Prepared};
use kernels_core::{
    AnyKernel, Backend, Checked, DType, Device, Error, Kernel, KernelSpec, Key, Packed, Registry, Result,
    Tensor,
};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A [`Contract`] as an [`AnyContract`].
pub struct Erased<O>(std::marker::PhantomData<fn() -> O>);

impl<O> Erased<O> {
    /// Used by [`crate::contract!`].
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Erased(std::marker::PhantomData)
    }
}

impl<O: Contract> AnyContract for Erased<O> {
    fn op(&self) -> &'static str {
        O::NAME
    }

    fn cases(&self) -> Vec<Box<dyn AnyCase>> {
        O::cases().into_iter().map(ErasedCase::<O>::boxed).collect()
    }

    fn bench_cases(&self) -> Vec<Box<dyn AnyCase>> {
        O::bench_cases().into_iter().map(ErasedCase::<O>::boxed).collect()
    }
}

struct ErasedCase<O: Contract> {
    case: Case<O::Params>,
    /// By whether activations are rounded to 8 bits.
    expected: [OnceLock<Vec<Vec<f64>>>; 2],
}

impl<O: Contract> ErasedCase<O> {
    fn boxed(case: Case<O::Params>) -> Box<dyn AnyCase> {
        Box::new(ErasedCase::<O> { case, expected: Default::default() })
    }

    fn copies(&self, device: Device) -> Result<Vec<Tensor>> {
        self.case.tensors.iter().map(|t| t.to_device(device)).collect()
    }

    fn bound<'a>(&self, tensors: &'a mut [Tensor]) -> Result<O::Args<'a>> {
        O::bind(&self.case.params, tensors).ok_or_else(|| self.fault("does not bind to the op"))
    }

    fn checked<'a>(&self, tensors: &'a mut [Tensor]) -> Result<Checked<'a, O>> {
        self.checked_with(tensors, None)
    }

    /// With this instead of the weight.
    fn checked_with<'a>(
        &self,
        tensors: &'a mut [Tensor],
        packed: Option<&'a Packed>,
    ) -> Result<Checked<'a, O>> {
        let mut args = self.bound(tensors)?;
        if let (Some(packed), Some(weight)) = (packed, O::weight(&mut args)) {
            *weight = packed.view();
        }
        Checked::new(args)
    }

    fn fault(&self, what: &str) -> Error {
        let detail = format!("{} case \"{}\" {what}", O::NAME, self.case.name);
        kernels_core::ConfigError::Invalid { name: "contract", detail }.into()
    }

    /// The case's weight in the kernel's own layout, if it has one.
    fn packed(&self, kernel: &Kernel<O>, device: Device) -> Result<Option<Packed>> {
        if kernel.spec().prepack.is_none() {
            return Ok(None);
        }
        let mut tensors = self.copies(device)?;
        let mut args = self.bound(&mut tensors)?;
        match O::weight(&mut args) {
            // SAFETY: the caller has found the kernel usable, and the case is one of its op.
            Some(weight) => unsafe { Packed::of(kernel.spec(), device, weight) },
            None => Ok(None),
        }
    }

    /// Memory of the outputs after `kernel`, with the class of the call; `None` where it does not serve. A
    /// packed weight goes where the case has a plain one.
    fn outputs(
        &self,
        kernel: &'static Kernel<O>,
        mut tensors: Vec<Tensor>,
        packed: Option<&Packed>,
        device: Device,
    ) -> Result<Option<(Key, Vec<Vec<f64>>)>> {
        let mut checked = self.checked_with(&mut tensors, packed)?;
        let key = checked.key();
        let Ok(selected) = kernel.for_call(&checked) else { return Ok(None) };
        selected.call(&mut checked)?;
        drop(checked);
        device.synchronize()?;
        let all: Result<_> = O::OUTPUTS.iter().map(|i| tensors[*i].to_f64_vec()).collect();
        Ok(Some((key, all?)))
    }

    /// The worst distance between results of a call of this class.
    fn compared(key: Key, got: &[Vec<f64>], expected: &[Vec<f64>]) -> Outcome {
        let (mut worst, mut at) = (0.0, String::from("equal"));
        for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
            let tolerance = O::tolerance_of(key, i);
            for (j, (g, e)) in got.iter().zip(expected).enumerate() {
                let d = tolerance.distance(*g, *e);
                if d > worst {
                    worst = d;
                    at = format!("output {i} element {j}: got {g}, expected {e}");
                }
            }
        }
        Outcome::Ran { worst, at }
    }

    fn typed(&self, kernel: &'static dyn AnyKernel) -> Result<&'static Kernel<O>> {
        kernel.as_any().downcast_ref().ok_or_else(|| self.fault("was given another op's kernel"))
    }

    /// What `kernel` is held to: the reference that treats activations as it does.
    fn reference(&self, kernel: &Kernel<O>) -> Result<&'static Kernel<O>> {
        let rounds = kernel.spec().quantises_activations;
        let is_mine = |s: &KernelSpec| {
            s.op == O::NAME && s.backend == Backend::REFERENCE && s.quantises_activations == rounds
        };
        let found = Registry::linked()?.kernels().find(|k| is_mine(k.spec()));
        found.and_then(|k| k.as_any().downcast_ref()).ok_or_else(|| self.fault("has no reference"))
    }

    fn expected(&self, kernel: &Kernel<O>) -> Result<&Vec<Vec<f64>>> {
        let cell = &self.expected[usize::from(kernel.spec().quantises_activations)];
        if let Some(known) = cell.get() {
            return Ok(known);
        }
        let outputs = self
            .outputs(self.reference(kernel)?, self.copies(Device::cpu())?, None, Device::cpu())?
            .ok_or_else(|| self.fault("is not served by the reference"))?;
        Ok(cell.get_or_init(|| outputs.1))
    }
}

impl<O: Contract> AnyCase for ErasedCase<O> {
    fn name(&self) -> &str {
        &self.case.name
    }

    fn tensors(&self) -> Vec<(DType, Vec<usize>)> {
        self.case.tensors.iter().map(|t| (t.dtype(), t.shape().to_vec())).collect()
    }

    fn key(&self) -> Result<Key> {
        Ok(self.checked(&mut self.copies(Device::cpu())?)?.key())
    }

    fn cost(&self) -> Result<Cost> {
        Ok(O::cost(self.checked(&mut self.copies(Device::cpu())?)?.args()))
    }

    fn run(&self, kernel: &'static dyn AnyKernel, device: Device) -> Result<Outcome> {
        let kernel = self.typed(kernel)?;
        let Some((key, got)) = self.outputs(kernel, self.copies(device)?, None, device)? else {
            return Ok(Outcome::NotServed);
        };
        let plain = Self::compared(key, &got, self.expected(kernel)?);
        let Some(packed) = self.packed(kernel, device)? else { return Ok(plain) };
        let got = self.outputs(kernel, self.copies(device)?, Some(&packed), device)?;
        let Some((key, got)) = got else { return Err(self.fault("is served, but not with a packed weight")) };
        match (Self::compared(key, &got, self.expected(kernel)?), plain) {
            (Outcome::Ran { worst, at }, Outcome::Ran { worst: least, .. }) if worst > least => {
                Ok(Outcome::Ran { worst, at: format!("with a packed weight, {at}") })
            }
            (_, plain) => Ok(plain),
        }
    }

    fn results(&self, kernel: &'static dyn AnyKernel, device: Device) -> Result<Option<Vec<Vec<f64>>>> {
        let kernel = self.typed(kernel)?;
        Ok(self.outputs(kernel, self.copies(device)?, None, device)?.map(|(_, outputs)| outputs))
    }

    fn run_mutated(&self, kernel: &'static dyn AnyKernel, device: Device, seed: u64) -> Result<Outcome> {
        let kernel = self.typed(kernel)?;
        let mut tensors = crate::hostile::mutated(&self.case.tensors, seed);
        let bound = O::bind(&self.case.params, &mut tensors).map(Checked::<O>::new);
        if !matches!(bound, Some(Ok(_))) {
            return Ok(Outcome::Refused);
        }
        drop(bound);
        let copies = |device: Device| tensors.iter().map(|t| t.to_device(device)).collect::<Result<Vec<_>>>();
        let expected = self.outputs(self.reference(kernel)?, copies(Device::cpu())?, None, Device::cpu());
        let got = self.outputs(kernel, copies(device)?, None, device);
        match (got, expected) {
            (Ok(None), _) => Ok(Outcome::NotServed),
            (Ok(Some((key, got))), Ok(Some((_, expected)))) => Ok(Self::compared(key, &got, &expected)),
            (Err(_), Err(_)) => Ok(Outcome::Refused),
            (Err(error), _) => Err(error),
            (Ok(Some(_)), Err(error)) => {
                let detail =
                    format!("{}: the reference says {error}, and the kernel nothing", self.case.name);
                Err(kernels_core::ConfigError::Invalid { name: O::NAME, detail }.into())
            }
            (Ok(Some(_)), Ok(None)) => Err(self.fault("is not served by the reference")),
        }
    }

    fn prepared<'c>(
        &'c self,
        kernel: &'static dyn AnyKernel,
        device: Device,
        packed: bool,
    ) -> Result<Option<Box<dyn Prepared + 'c>>> {
        let kernel = self.typed(kernel)?;
        let packed = if packed { self.packed(kernel, device)? } else { None };
        let mut tensors = self.copies(device)?;
        let serves = kernel.for_call(&self.checked_with(&mut tensors, packed.as_ref())?).is_ok();
        if !serves {
            return Ok(None);
        }
        Ok(Some(Box::new(Run { case: self, kernel, device, tensors, packed })))
    }
}

struct Run<'c, O: Contract> {
    case: &'c ErasedCase<O>,
    kernel: &'static Kernel<O>,
    device: Device,
    tensors: Vec<Tensor>,
    packed: Option<Packed>,
}

impl<O: Contract> Prepared for Run<'_, O> {
    fn time(&mut self, iterations: u32) -> Result<Duration> {
        let mut checked = self.case.checked_with(&mut self.tensors, self.packed.as_ref())?;
        let selected = self.kernel.for_call(&checked)?;
        self.device.synchronize()?;
        let start = Instant::now();
        for _ in 0..iterations {
            selected.call(&mut checked)?;
        }
        self.device.synchronize()?;
        Ok(start.elapsed())
    }
}
