//! What this machine gives in this run, memory and arithmetic, for the share that a kernel reaches of it.

use kernels_core::{DType, Device, DeviceKind, Result, Tensor};
use kernels_ops::elementwise::copy_into;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;

/// Bandwidths measured for a working set of a certain size, and the peak of f32 arithmetic.
#[derive(Clone, Copy, Debug)]
pub struct Roofline {
    /// Bytes read per second.
    pub read: f64,
    /// Bytes per second of a copy, reads and writes counted.
    pub copy: f64,
    /// f32 operations per second, a fused multiply-add counted as two. A kernel on integers may exceed it.
    pub flops: f64,
}

impl Roofline {
    /// Of a device, for a working set of `bytes`: of a CPU measured by loads and stores, of any other by the `copy`
    /// kernel that is best there, without a peak of arithmetic.
    ///
    /// # Errors
    /// The device has no such kernel, or it fails.
    pub fn of(device: Device, bytes: usize) -> Result<Roofline> {
        if device.id().kind == DeviceKind::CPU {
            return Ok(Roofline::measure(bytes, device.threads()));
        }
        // Small copies measure the launch: what a kernel could do at best with as few bytes.
        let shape = [(bytes / 8).clamp(1 << 10, 1 << 28)];
        let x = Tensor::zeros(DType::F32, &shape, device)?;
        let mut out = Tensor::zeros(DType::F32, &shape, device)?;
        let mut copies = |times: u32| -> Result<f64> {
            device.synchronize()?;
            let start = Instant::now();
            (0..times).try_for_each(|_| copy_into(&x, &mut out))?;
            device.synchronize()?;
            Ok((x.bytes() + x.bytes()) as f64 * f64::from(times) / start.elapsed().as_secs_f64())
        };
        copies(3)?;
        let mut fastest = 0f64;
        for _ in 0..7 {
            fastest = fastest.max(copies(20)?);
        }
        Ok(Roofline { read: fastest, copy: fastest, flops: f64::INFINITY })
    }

    /// Measures with a working set of `bytes`, on `threads` threads.
    pub fn measure(bytes: usize, threads: usize) -> Roofline {
        let per_thread = (bytes / threads).clamp(4 << 10, 512 << 20).next_multiple_of(256);
        let read = best(threads, per_thread, |src, _| {
            black_box(read_all(src));
            src.len() as f64
        });
        let copy = best(threads, per_thread / 2, |src, dst| {
            dst.copy_from_slice(src);
            black_box(&dst[0]);
            2.0 * src.len() as f64
        });
        Roofline { read, copy, flops: peak_flops(threads) }
    }

    /// The least seconds for so many bytes read and written and operations done.
    pub fn seconds(&self, read: u64, written: u64, flops: u64) -> f64 {
        let copied = 2 * written.min(read);
        let memory = copied as f64 / self.copy + (read + written - copied) as f64 / self.read;
        memory.max(flops as f64 / self.flops)
    }
}

/// Measured once for each number of threads.
fn peak_flops(threads: usize) -> f64 {
    static KNOWN: Mutex<BTreeMap<usize, f64>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    *known.entry(threads).or_insert_with(|| {
        best(threads, 256, |_, _| {
            black_box(multiply_add(black_box(1.0)));
            (STEPS * CHAINS * LANES * 2) as f64
        })
    })
}

const STEPS: usize = 20_000;
/// Independent sums: enough to hide the latency of the addition.
const CHAINS: usize = 12;
/// Lanes of the widest vector; narrower ones do as many steps more.
const LANES: usize = 16;

fn multiply_add(x: f32) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature was just detected.
        return unsafe { chains_avx512(x) };
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the feature was just detected.
        return unsafe { chains_fma(x) };
    }
    let mut sums = [[0f32; LANES]; CHAINS];
    for _ in 0..STEPS {
        for sum in &mut sums {
            for s in sum {
                *s = *s * 0.5 + x;
            }
        }
    }
    sums.iter().flatten().sum()
}

/// # Safety
/// The processor has AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn chains_avx512(x: f32) -> f32 {
    use std::arch::x86_64::*;
    let (half, x) = (_mm512_set1_ps(0.5), _mm512_set1_ps(x));
    let mut sums = [_mm512_setzero_ps(); CHAINS];
    for _ in 0..STEPS {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, half, x);
        }
    }
    sums.iter().map(|s| _mm512_reduce_add_ps(*s)).sum()
}

/// # Safety
/// The processor has FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,fma")]
unsafe fn chains_fma(x: f32) -> f32 {
    use std::arch::x86_64::*;
    let (half, x) = (_mm256_set1_ps(0.5), _mm256_set1_ps(x));
    let mut sums = [_mm256_setzero_ps(); CHAINS];
    for _ in 0..STEPS * LANES / 8 {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, half, x);
        }
    }
    sums.iter().map(|s| _mm256_cvtss_f32(*s)).sum()
}

fn read_all(src: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature was just detected.
        return unsafe { read_avx512(src) };
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the feature was just detected.
        return unsafe { read_avx2(src) };
    }
    read_words(src)
}

#[inline(always)]
fn read_words(src: &[u8]) -> u64 {
    // Independent sums, so that the additions are not the limit.
    let (mut sums, words) = ([0u64; 32], src.as_chunks::<256>().0);
    for chunk in words {
        for (s, w) in sums.iter_mut().zip(chunk.as_chunks::<8>().0) {
            *s = s.wrapping_add(u64::from_ne_bytes(*w));
        }
    }
    sums.iter().fold(0, |a, b| a.wrapping_add(*b))
}

/// # Safety
/// The processor has AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn read_avx512(src: &[u8]) -> u64 {
    read_words(src)
}

/// # Safety
/// The processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn read_avx2(src: &[u8]) -> u64 {
    read_words(src)
}

/// The best of several passes: a roofline is what the machine can, not what it did under load.
fn best(threads: usize, bytes: usize, pass: impl Fn(&[u8], &mut [u8]) -> f64 + Sync) -> f64 {
    let barrier = std::sync::Barrier::new(threads);
    std::thread::scope(|scope| {
        let one = || {
            let (src, mut dst) = (vec![1u8; bytes], vec![2u8; bytes]);
            let rounds = ((4 << 20) / bytes.max(64 << 10)).max(1);
            let mut rates = Vec::new();
            for _ in 0..7 {
                barrier.wait();
                let start = Instant::now();
                let moved: f64 = (0..rounds).map(|_| pass(black_box(&src), &mut dst)).sum();
                rates.push(moved / start.elapsed().as_secs_f64());
            }
            rates.into_iter().fold(0.0, f64::max)
        };
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        handles.into_iter().map(|h| h.join().unwrap_or(0.0)).sum()
    })
}
