//! Seeded data for parity cases, benches and the demo model.

use kernels_core::{DType, Device, Layout, Tensor};

/// A small seeded generator (SplitMix64, Steele et al. 2014): the same numbers everywhere.
pub struct Rng(u64);

impl Rng {
    /// From a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About standard normal: twelve uniforms less six.
    pub fn normal(&mut self) -> f32 {
        ((0..12).map(|_| self.uniform()).sum::<f64>() - 6.0) as f32
    }

    /// `len` normal values times `scale`.
    pub fn normals(&mut self, len: usize, scale: f32) -> Vec<f32> {
        (0..len).map(|_| self.normal() * scale).collect()
    }

    /// Below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next_u64() % limit.max(1) as u64) as usize
    }
}

/// A seeded normal tensor. Panics only where memory is out, as test data may.
pub fn normal(seed: u64, dtype: DType, shape: &[usize], scale: f32) -> Tensor {
    let len = Layout::contiguous(shape).map_or(0, |l| l.elements());
    made(Tensor::from_f32(&Rng::new(seed).normals(len, scale), dtype, shape))
}

/// Makes one element of a float tensor NaN.
pub fn poison(tensor: &mut Tensor, at: usize) {
    let mut values = made(tensor.to_f32_vec());
    values[at] = f32::NAN;
    *tensor = made(Tensor::from_f32(&values, tensor.dtype(), tensor.shape()));
}

/// An output before it is written: NaN or the least integer, so that what a kernel leaves out shows.
pub fn unwritten(dtype: DType, shape: &[usize]) -> Tensor {
    let len = Layout::contiguous(shape).map_or(0, |l| l.elements());
    made(match dtype {
        DType::I32 => Tensor::from_slice(&vec![i32::MIN; len], shape),
        DType::I8 => Tensor::from_slice(&vec![i8::MIN; len], shape),
        _ => Tensor::from_f32(&vec![f32::NAN; len], dtype, shape),
    })
}

/// An index vector or matrix of i32 or i64.
pub fn ints(dtype: DType, values: &[i64], shape: &[usize]) -> Tensor {
    made(match dtype {
        DType::I64 => Tensor::from_slice(values, shape),
        DType::U32 => Tensor::from_slice(&values.iter().map(|v| *v as u32).collect::<Vec<_>>(), shape),
        _ => Tensor::from_slice(&values.iter().map(|v| *v as i32).collect::<Vec<_>>(), shape),
    })
}

/// Seeded blocks of a quantised type whose scales are small and finite; plain types get normal values.
pub fn blocks(seed: u64, dtype: DType, shape: &[usize]) -> Tensor {
    if !dtype.is_quantised() {
        return normal(seed, dtype, shape, 0.05);
    }
    let elements: usize = shape.iter().product();
    let (bytes, mut rng) = (dtype.block_bytes(), Rng::new(seed));
    let mut data = vec![0u8; elements / dtype.block_len() * bytes];
    for block in data.chunks_exact_mut(bytes) {
        block.iter_mut().for_each(|b| *b = rng.next_u64() as u8);
        for at in crate::quantization::blocks::scale_offsets(dtype) {
            // The largest integer of the format times the scale is then at most about 0.2.
            let largest = match dtype {
                DType::Q8_0 => 128.0,
                DType::Q4K => 63.0 * 15.0,
                DType::Q5K => 63.0 * 31.0,
                DType::Q6K => 128.0 * 32.0,
                _ => 16.0,
            };
            let scale = kernels_core::f16::from_f32((rng.uniform() as f32 + 0.1) * 0.2 / largest);
            block[*at..*at + 2].copy_from_slice(&scale.to_le_bytes());
        }
    }
    made(Tensor::from_bytes(&data, dtype, shape, Device::cpu()))
}

/// The values of test data that the allocator refused.
fn made<T>(made: kernels_core::Result<T>) -> T {
    made.unwrap_or_else(|e| panic!("test data: {e}"))
}
