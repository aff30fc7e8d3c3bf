//! What a contract states besides its arguments: parity cases, tolerance and cost. The harness runs
//! every registered kernel against them; a kernel that is not in this suite does not exist.

use kernels_core::{AnyKernel, DType, Device, Key, Op, Result, Tensor, View};
use std::time::Duration;

/// The testable half of an op's contract.
pub trait Contract: Op {
    /// What a case has besides tensors: the op's values, and how views are cut from the tensors.
    type Params: Send + Sync;

    /// Which of a case's tensors the op writes.
    const OUTPUTS: &'static [usize];

    /// Cases that every kernel must get right: odd sizes, zero rows, strides, extremes, NaN and
    /// infinities, for each element type.
    fn cases() -> Vec<Case<Self::Params>>;

    /// Cases worth timing.
    fn bench_cases() -> Vec<Case<Self::Params>>;

    /// The op's arguments, cut from a case's tensors.
    ///
    /// # Errors
    /// A case that does not fit the op, which is a fault of the contract.
    fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<Self::Args<'a>>;

    /// The weight that a kernel may want in its own layout, for ops that have one. Such a kernel gets every case both
    /// ways.
    fn weight<'b, 'a>(args: &'b mut Self::Args<'a>) -> Option<&'b mut View<'a>> {
        let _ = args;
        None
    }

    /// How far a kernel's result may be from the reference's for calls of this class.
    fn tolerance(key: Key) -> Tolerance;

    /// The same for one of [`Contract::OUTPUTS`], where they differ.
    fn tolerance_of(key: Key, output: usize) -> Tolerance {
        let _ = output;
        Self::tolerance(key)
    }

    /// What a call must move and compute at least.
    fn cost(args: &Self::Args<'_>) -> Cost;
}

/// One set of arguments.
pub struct Case<P> {
    /// Unique in the op, for people.
    pub name: String,
    /// Tensors on the host, outputs too.
    pub tensors: Vec<Tensor>,
    /// The rest.
    pub params: P,
}

/// `|got - expected| <= abs + rel * |expected|`; NaN must meet NaN, and an infinity itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Absolute part.
    pub abs: f64,
    /// Relative part.
    pub rel: f64,
}

impl Tolerance {
    /// Bit for bit.
    pub const EXACT: Tolerance = Tolerance { abs: 0.0, rel: 0.0 };

    /// For a result that is rounded once to the class's type after f32 arithmetic: `ulps` units in the
    /// last place, and `f32_rel` for the arithmetic.
    pub fn rounded(key: Key, ulps: f64, f32_rel: f64) -> Tolerance {
        let eps = match key.dtype {
            kernels_core::DType::BF16 => 2f64.powi(-7),
            kernels_core::DType::F16 => 2f64.powi(-10),
            kernels_core::DType::F8E4M3 => 2f64.powi(-3),
            _ => 2f64.powi(-23),
        };
        Tolerance { abs: f32_rel, rel: ulps * eps + f32_rel }
    }

    /// Also allows the spacing of the class's subnormal numbers (of integers: 1), where one rounding is not
    /// relative.
    pub fn at_least_subnormal(self, key: Key) -> Tolerance {
        let spacing = match key.dtype {
            kernels_core::DType::F16 => 2f64.powi(-24),
            kernels_core::DType::F8E4M3 => 2f64.powi(-9),
            kernels_core::DType::I8 => 1.0,
            _ => 1e-37,
        };
        Tolerance { abs: self.abs.max(spacing), ..self }
    }

    /// The distance in units of what is allowed: at most 1 passes.
    pub fn distance(&self, got: f64, expected: f64) -> f64 {
        if got == expected || (got.is_nan() && expected.is_nan()) {
            return 0.0;
        }
        let ratio = (got - expected).abs() / (self.abs + self.rel * expected.abs());
        if ratio.is_nan() { f64::INFINITY } else { ratio }
    }
}

/// The least that a call moves and computes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Floating-point operations.
    pub flops: u64,
}

/// How one kernel did on one case.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It ran; the worst distance in units of the tolerance, and where.
    Ran {
        /// At most 1 passes.
        worst: f64,
        /// Which output, which element, got and expected.
        at: String,
    },
    /// Its spec does not take calls of this class.
    NotServed,
    /// The op, or the reference and the kernel alike, refuse the arguments.
    Refused,
}

/// A contract without its type.
pub trait AnyContract: Send + Sync {
    /// The op.
    fn op(&self) -> &'static str;
    /// Its parity cases.
    fn cases(&self) -> Vec<Box<dyn AnyCase>>;
    /// Its bench cases.
    fn bench_cases(&self) -> Vec<Box<dyn AnyCase>>;
}

/// A case without its type.
pub trait AnyCase: Send + Sync {
    /// Unique in the op.
    fn name(&self) -> &str;
    /// Element type and shape of each of its tensors.
    fn tensors(&self) -> Vec<(DType, Vec<usize>)>;
    /// The call's class.
    ///
    /// # Errors
    /// A case that its own op refuses.
    fn key(&self) -> Result<Key>;
    /// What the call must move and compute at least.
    ///
    /// # Errors
    /// A case that its own op refuses.
    fn cost(&self) -> Result<Cost>;
    /// Runs `kernel` on a copy of the case on `device`, and compares all of each output's memory, gaps
    /// included, with what the reference leaves there.
    ///
    /// # Errors
    /// The kernel's failure.
    fn run(&self, kernel: &'static dyn AnyKernel, device: Device) -> Result<Outcome>;
    /// All of each output's memory after `kernel`; `None` where its spec does not take the case.
    ///
    /// # Errors
    /// The kernel's failure.
    fn results(&self, kernel: &'static dyn AnyKernel, device: Device) -> Result<Option<Vec<Vec<f64>>>>;
    /// Runs `kernel` and the reference on the case's arguments with other shapes, types and values, by `seed`.
    /// What the op lets through, both answer alike: with an error, or with results within the tolerance.
    ///
    /// # Errors
    /// One of them fails where the other does not.
    fn run_mutated(&self, kernel: &'static dyn AnyKernel, device: Device, seed: u64) -> Result<Outcome>;
    /// A copy of the case on `device` for `kernel`, to be run many times, with its weight `packed` ahead of the calls
    /// if the kernel does that; `None` where it does not serve.
    ///
    /// # Errors
    /// No memory.
    fn prepared<'c>(
        &'c self,
        kernel: &'static dyn AnyKernel,
        device: Device,
        packed: bool,
    ) -> Result<Option<Box<dyn Prepared + 'c>>>;
}

/// A case and a kernel for it, and memory that stays where it is.
pub trait Prepared {
    /// How long so many calls take.
    ///
    /// # Errors
    /// The kernel's failure.
    fn time(&mut self, iterations: u32) -> Result<Duration>;
}

/// A contract in the inventory.
pub struct ContractEntry(pub &'static dyn AnyContract);
inventory::collect!(ContractEntry);

/// Every contract that was linked, by op.
pub fn contracts() -> Vec<&'static dyn AnyContract> {
    let mut all: Vec<_> = inventory::iter::<ContractEntry>.into_iter().map(|e| e.0).collect();
    all.sort_by_key(|c| c.op());
    all
}

/// Registers the testable half of a contract.
#[macro_export]
macro_rules! contract {
    ($op:ident) => {
        const _: () = {
            static CONTRACT: $crate::Erased<$op<'static>> = $crate::Erased::new();
            $crate::inventory::submit! { $crate::ContractEntry(&CONTRACT) }
        };
    };
}
