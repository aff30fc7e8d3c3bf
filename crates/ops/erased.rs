//! A contract without its type: what runs kernels on its cases.

use crate::contract::{AnyCase, AnyContract, Case, Contract, Cost, Outcome};
use kernels_core::{
    AnyKernel, Backend, Checked, DType, Device, Error, Kernel, KernelSpec, Key, Registry, Result, Tensor,
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

    fn checked<'a>(&self, tensors: &'a mut [Tensor]) -> Result<Checked<'a, O>> {
        let args =
            O::bind(&self.case.params, tensors).ok_or_else(|| self.fault("does not bind to the op"))?;
        Checked::new(args)
    }

    fn fault(&self, what: &str) -> Error {
        let detail = format!("{} case \"{}\" {what}", O::NAME, self.case.name);
        kernels_core::ConfigError::Invalid { name: "contract", detail }.into()
    }

    /// Memory of the outputs after `kernel`, with the class of the call; `None` where it does not serve.
    fn outputs(
        &self,
        kernel: &'static Kernel<O>,
        mut tensors: Vec<Tensor>,
        device: Device,
    ) -> Result<Option<(Key, Vec<Vec<f64>>)>> {
        let mut checked = self.checked(&mut tensors)?;
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
            .outputs(self.reference(kernel)?, self.copies(Device::cpu())?, Device::cpu())?
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
        let Some((key, got)) = self.outputs(kernel, self.copies(device)?, device)? else {
            return Ok(Outcome::NotServed);
        };
        Ok(Self::compared(key, &got, self.expected(kernel)?))
    }

    fn results(&self, kernel: &'static dyn AnyKernel, device: Device) -> Result<Option<Vec<Vec<f64>>>> {
        let kernel = self.typed(kernel)?;
        Ok(self.outputs(kernel, self.copies(device)?, device)?.map(|(_, outputs)| outputs))
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
        let expected = self.outputs(self.reference(kernel)?, copies(Device::cpu())?, Device::cpu());
        let got = self.outputs(kernel, copies(device)?, device);
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

    fn time(
        &self,
        kernel: &'static dyn AnyKernel,
        device: Device,
        iterations: u32,
    ) -> Result<Option<Duration>> {
        let kernel = self.typed(kernel)?;
        let mut tensors = self.copies(device)?;
        let mut checked = self.checked(&mut tensors)?;
        let Ok(selected) = kernel.for_call(&checked) else { return Ok(None) };
        device.synchronize()?;
        let start = Instant::now();
        for _ in 0..iterations {
            selected.call(&mut checked)?;
        }
        device.synchronize()?;
        Ok(Some(start.elapsed()))
    }
}
