//! What selection costs: `cargo bench --bench dispatch`. Interleaved, medians, on one thread.

use kernel_registry::*;
use std::hint::black_box;
use std::time::Instant;

kernel_registry::backend! { backends: [Backend::REFERENCE, Backend("bench")], driver: &HOST }

kernel_registry::op! {
    /// Does nothing, so that all time is the way there.
    pub struct Nothing = "bench.nothing" {
        /// `[n]`
        reads x,
        /// `[n]`
        writes out,
    }
}

impl Nothing<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        Ok(Valid { key: Key::of(self.x.dtype()), empty: false })
    }
}

unsafe fn nothing(ctx: &Ctx, a: &Nothing<'_>) -> Result<(), RunError> {
    black_box((ctx, a));
    Ok(())
}

kernel!(unsafe {
    op: Nothing,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: nothing
});

/// The same as another backend: a call that lands on the reference counts itself as a fallback.
mod fast {
    use super::{Nothing, nothing};
    use kernel_registry::*;
    kernel!(unsafe {
        op: Nothing,
        backend: Backend("bench"),
        variant: "",
        formats: Formats::same(DTypeSet::FLOAT),
        run: nothing
    });
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

fn main() -> Result<()> {
    const CALLS: u32 = 200_000;
    let (x, mut out) =
        (Tensor::zeros(DType::F32, &[4], Device::cpu())?, Tensor::zeros(DType::F32, &[4], Device::cpu())?);
    let mut other = Tensor::zeros(DType::F32, &[4], Device::cpu())?;
    let mut checked = Nothing { x: x.view(), out: out.view_mut() }.check()?;
    let args = Nothing { x: x.view(), out: other.view_mut() };
    let registry = Registry::linked()?;
    let selector = Selector::new(registry, Device::cpu());
    let direct = black_box(nothing as unsafe fn(&Ctx, &Nothing<'_>) -> Result<(), RunError>);
    let (mut by_hand, mut typed, mut named) = (vec![], vec![], vec![]);
    for _ in 0..21 {
        let t = Instant::now();
        for _ in 0..CALLS {
            // SAFETY: `nothing` needs nothing.
            unsafe { direct(&Ctx::bare(black_box(Device::cpu())), black_box(&args))? };
        }
        by_hand.push(t.elapsed().as_nanos() as f64 / f64::from(CALLS));
        let t = Instant::now();
        for _ in 0..CALLS {
            black_box(&mut checked).run()?;
        }
        typed.push(t.elapsed().as_nanos() as f64 / f64::from(CALLS));
        let t = Instant::now();
        for _ in 0..CALLS {
            black_box(selector.select_backend(black_box("layernorm.rmsnorm"), Backend::REFERENCE)?);
        }
        named.push(t.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    let (by_hand, typed) = (median(by_hand), median(typed));
    println!("function by hand, with a context  {by_hand:7.1} ns");
    println!("typed call on checked arguments   {typed:7.1} ns, {:.1} ns more", typed - by_hand);
    println!("select(op, backend) by name       {:7.1} ns", median(named));
    if cfg!(feature = "cpu") {
        let mut strict = vec![];
        for _ in 0..21 {
            let t = Instant::now();
            for _ in 0..CALLS {
                black_box(selector.select(black_box("layernorm.rmsnorm"))?);
            }
            strict.push(t.elapsed().as_nanos() as f64 / f64::from(CALLS));
        }
        println!("select(op) by name                {:7.1} ns", median(strict));
    }
    println!("registry of 10,000 specs          {:7.2} ms", build_ms());
    Ok(())
}

/// Builds registries of 10,000 specs over 1,000 ops; the median in milliseconds.
fn build_ms() -> f64 {
    let mut parts = Parts::default();
    let backends: &'static [Backend] = ["a", "b", "c", "d", "reference"].map(Backend).leak_slice();
    let manifest: &'static Manifest =
        Box::leak(Box::new(Manifest { package: "many", version: "1.0.0", backends, driver: &HOST }));
    parts.manifests.push(manifest);
    for op in 0..1000u32 {
        let name: &'static str = Box::leak(format!("group{}.op{op}", op % 17).into_boxed_str());
        let origin = Origin { package: "many", version: "1.0.0", file: "many.rs", line: op };
        parts.ops.push(Box::leak(Box::new(OpInfo { name, summary: "", tensors: &[], origin })));
        for k in 0..10 {
            let backend = backends[k % backends.len()];
            let variant = ["x", "y"][k / backends.len()];
            let formats = Formats::same(DTypeSet::FLOAT);
            let spec = KernelSpec { backend, variant, formats, ..KernelSpec::new(name, manifest, origin) };
            // SAFETY: `nothing` needs nothing.
            parts
                .kernels
                .push(Box::leak(Box::new(unsafe { Kernel::<Nothing<'static>>::new(spec, nothing, None) })));
        }
    }
    let times = (0..15).map(|_| {
        let parts = parts.clone();
        let t = Instant::now();
        let registry = Registry::build(parts).unwrap_or_else(|e| panic!("{e}"));
        let ms = t.elapsed().as_secs_f64() * 1e3;
        assert_eq!(registry.specs().count(), 10_000);
        ms
    });
    median(times.collect())
}

trait LeakSlice<T> {
    fn leak_slice(self) -> &'static [T];
}

impl<T, const N: usize> LeakSlice<T> for [T; N] {
    fn leak_slice(self) -> &'static [T] {
        Box::leak(Box::new(self))
    }
}
