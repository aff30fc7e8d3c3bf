//! Arguments as they should not be: other shapes, types and values than a case has. A kernel answers such a call
//! with an error or the right result, never with a panic or a wild access.

use crate::data::{Rng, ints, normal, poison};
use kernels_core::{DType, DTypeSet, Tensor};

/// The most elements of a tensor that is made.
const MOST: usize = 1 << 15;

/// A case's tensors, some of them changed.
pub fn mutated(tensors: &[Tensor], seed: u64) -> Vec<Tensor> {
    let mut rng = Rng::new(seed);
    // Most calls only get other values, or one other shape: with more, hardly any is let through.
    let (values, shapes) = (rng.below(2) == 0, if rng.below(3) == 0 { 2 } else { 8 });
    let one = |tensor: &Tensor| {
        let mut shape = tensor.shape().to_vec();
        let mut dtype = tensor.dtype();
        if rng.below(shapes) == 0 {
            change_shape(&mut shape, dtype.block_len(), &mut rng);
        }
        if rng.below(30) == 0 {
            let all: Vec<DType> = DTypeSet::PLAIN.iter().collect();
            dtype = all[rng.below(all.len())];
        }
        let same = shape == tensor.shape() && dtype == tensor.dtype();
        match same && !(values && rng.below(2) == 0) {
            true => tensor.to_device(tensor.device()).unwrap_or_else(|e| panic!("test data: {e}")),
            false => other_values(dtype, &shape, &mut rng),
        }
    };
    tensors.iter().map(one).collect()
}

fn change_shape(shape: &mut Vec<usize>, block: usize, rng: &mut Rng) {
    match rng.below(6) {
        0 => shape.push(1 + rng.below(3)),
        1 => _ = shape.pop(),
        _ => {
            let axis = rng.below(shape.len());
            if let Some(dim) = shape.get_mut(axis) {
                *dim = [0, 1, 2, 3, 33, *dim + 1, dim.saturating_sub(1), 2 * *dim][rng.below(8)];
            }
        }
    }
    shape.truncate(kernels_core::MAX_RANK);
    if let Some(last) = shape.last_mut() {
        *last = last.next_multiple_of(block);
    }
    while shape.iter().product::<usize>() > MOST {
        shape.iter_mut().rev().skip(1).for_each(|d| *d = d.div_ceil(2));
        if shape.len() == 1 || shape.iter().rev().skip(1).all(|d| *d == 1) {
            return *shape = vec![block; shape.len()];
        }
    }
}

fn other_values(dtype: DType, shape: &[usize], rng: &mut Rng) -> Tensor {
    let count: usize = shape.iter().product();
    if matches!(dtype, DType::I32 | DType::I64 | DType::U32) {
        let value = |rng: &mut Rng| match rng.below(12) {
            0 => -1,
            1 => i64::MIN,
            2 => i64::MAX,
            3 => i64::from(i32::MAX),
            4 => rng.below(1000) as i64,
            _ => rng.below(5) as i64,
        };
        let values: Vec<i64> = (0..count).map(|_| value(rng)).collect();
        return ints(dtype, &values, shape);
    }
    if dtype == DType::U8 {
        let bytes: Vec<u8> = (0..count).map(|_| rng.below(2) as u8).collect();
        return Tensor::from_slice(&bytes, shape).unwrap_or_else(|e| panic!("test data: {e}"));
    }
    if dtype.is_quantised() {
        return crate::data::blocks(rng.next_u64(), dtype, shape);
    }
    let mut tensor = normal(rng.next_u64(), dtype, shape, if dtype == DType::I8 { 40.0 } else { 0.3 });
    if count > 0 && DTypeSet::FLOAT.contains(dtype) && rng.below(4) == 0 {
        poison(&mut tensor, rng.below(count));
    }
    tensor
}
