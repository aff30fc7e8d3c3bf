//! Random shapes and strides: the best kernel against the reference.

use kernel_registry::ops::attention::Decode;
use kernel_registry::ops::data::{Rng, blocks, ints, normal};
use kernel_registry::ops::elementwise::Add;
use kernel_registry::ops::gemm::{Int8ScaledMm, Linear, LinearGguf, int8_activations};
use kernel_registry::ops::layernorm::RmsNorm;
use kernel_registry::ops::sampling::{Draw, Sample, Softmax};
use kernel_registry::{Backend, DType, DTypeSet, Device, Policy, Registry, Result, Tensor};
use proptest::prelude::*;

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

fn zeros(dtype: DType, shape: &[usize]) -> Tensor {
    Tensor::zeros(dtype, shape, Device::cpu()).unwrap()
}

/// Runs `call` on the best kernel and on the reference, and compares within the type's rounding.
fn same(
    dtype: DType,
    shape: &[usize],
    tolerance: f64,
    call: impl Fn(&mut Tensor, Option<Backend>) -> Result<()>,
) {
    let (mut got, mut expected) = (zeros(dtype, shape), zeros(dtype, shape));
    call(&mut got, None).unwrap();
    call(&mut expected, Some(Backend::REFERENCE)).unwrap();
    let ulp = match dtype {
        DType::BF16 => 2f64.powi(-7),
        DType::F16 => 2f64.powi(-10),
        _ => 2f64.powi(-23),
    };
    for (i, (g, e)) in got.to_f64_vec().unwrap().iter().zip(expected.to_f64_vec().unwrap()).enumerate() {
        assert!(
            (g - e).abs() <= tolerance + (tolerance + 1.01 * ulp) * e.abs(),
            "element {i}: got {g}, expected {e}"
        );
    }
}

macro_rules! run {
    ($backend:expr, $args:expr) => {{
        let mut checked = $args.check()?;
        match $backend {
            Some(b) => checked.run_on(b),
            None => checked.run(),
        }
    }};
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rmsnorm(rows in 0usize..9, cols in 1usize..300, gap in 0usize..9, d in 0usize..3, seed: u64) {
        let (x, w) = (normal(seed, FLOATS[d], &[rows, cols + gap], 2.0), normal(!seed, FLOATS[d], &[cols], 1.0));
        same(FLOATS[d], &[rows, cols], 2e-6, |out, b| {
            let x = x.view().narrow(1, 0, cols).unwrap();
            run!(b, RmsNorm { x, weight: w.view(), out: out.view_mut(), eps: 1e-5 })
        });
    }

    #[test]
    fn linear(m in 0usize..20, n in 1usize..40, k in 1usize..150, gap in 0usize..5, x in 0usize..3, w in 0usize..3, seed: u64) {
        let (x, w) = (normal(seed, FLOATS[x], &[m, k + gap], 1.0), normal(!seed, FLOATS[w], &[n, k + gap], 0.1));
        same(x.dtype(), &[m, n], 2e-5, |out, b| {
            let (x, weight) = (x.view().narrow(1, 0, k).unwrap(), w.view().narrow(1, 0, k).unwrap());
            run!(b, Linear { x, weight, bias: None, out: out.view_mut() })
        });
    }

    #[test]
    fn linear_gguf(m in 0usize..20, n in 1usize..40, k in 1usize..4, format in 0usize..8, seed: u64) {
        let (w, k) = (DTypeSet::GGUF.iter().nth(format).unwrap(), k * 256);
        let (x, w) = (normal(seed, DType::F32, &[m, k], 1.0), blocks(!seed, w, &[n, k]));
        let exact = Policy { full_precision: true, ..Policy::default() };
        Registry::linked().unwrap().scope(exact, || same(DType::F32, &[m, n], 5e-5, |out, b| {
            run!(b, LinearGguf { x: x.view(), weight: w.view(), bias: None, out: out.view_mut() })
        })).unwrap();
        // To kernels that round activations to 8 bits, those that are so already are exact.
        let mut rounded = x.to_f64_vec().unwrap();
        int8_activations::round(&mut rounded);
        let rounded: Vec<f32> = rounded.into_iter().map(|x| x as f32).collect();
        let x = Tensor::from_f32(&rounded, DType::F32, &[m, k]).unwrap();
        same(DType::F32, &[m, n], 5e-5, |out, b| {
            run!(b, LinearGguf { x: x.view(), weight: w.view(), bias: None, out: out.view_mut() })
        });
    }

    #[test]
    fn decode(lens in prop::collection::vec(0i64..90, 1..4), kv in 1usize..4, group in 1usize..20, dim in 1usize..70, block in 1usize..20, window in 0usize..40, cap in 0u8..3, has_sinks: bool, seed: u64) {
        let (batch, heads, most) = (lens.len(), kv * group, lens.iter().max().map_or(1, |l| *l as usize).max(1));
        let width = most.div_ceil(block);
        let mut rng = Rng::new(seed);
        // Sequences may share blocks: a cached prefix does.
        let table: Vec<i64> = (0..batch * width).map(|_| rng.below(5) as i64).collect();
        let (table, lens) = (ints(DType::I32, &table, &[batch, width]), ints(DType::I64, &lens, &[batch]));
        let q = normal(seed, DType::F32, &[batch, heads, dim], 1.0);
        let sinks = normal(seed ^ 3, DType::F32, &[heads], 1.0);
        let [keys, values] = [1, 2].map(|s| normal(seed ^ s, DType::F16, &[5, block, kv, dim], 1.0));
        same(DType::F32, &[batch, heads, dim], 2e-5, |out, b| run!(b, Decode {
            q: q.view(),
            key_cache: keys.view(),
            value_cache: values.view(),
            block_table: table.view(),
            seq_lens: lens.view(),
            sinks: has_sinks.then(|| sinks.view()),
            out: out.view_mut(),
            lse: None,
            sm_scale: 0.3,
            logit_cap: f32::from(cap) * 2.0,
            window,
            k_scale: 0.9,
            v_scale: 1.1,
        }));
    }

    /// Any order of dimensions in memory, inputs that repeat, outputs with gaps.
    #[test]
    fn elementwise(shape in prop::collection::vec(1usize..9, 2..5), swap in (0usize..4, 0usize..4), repeat in 0usize..4, gap in 0usize..3, seed: u64) {
        let rank = shape.len();
        let (a, b) = (swap.0 % rank, swap.1 % rank);
        let mut behind = shape.clone();
        behind.swap(a, b);
        let x = normal(seed, DType::F32, &behind, 1.0);
        let mut one = shape.clone();
        one[repeat % rank] = 1;
        let y = normal(seed ^ 1, DType::F32, &one, 1.0);
        let mut wide = shape.clone();
        wide[rank - 1] += gap;
        same(DType::F32, &wide, 1e-6, |out, backend| run!(backend, Add {
            a: x.view().transpose(a, b).unwrap(),
            b: y.view().broadcast_to(&shape).unwrap(),
            out: out.view_mut().narrow(rank - 1, 0, shape[rank - 1]).unwrap(),
        }));
    }

    #[test]
    fn int8_products(m in 0usize..20, n in 1usize..20, k in 0usize..200, seed: u64) {
        let (a, b) = (normal(seed, DType::I8, &[m, k], 60.0), normal(seed ^ 1, DType::I8, &[n, k], 60.0));
        let (scales_a, scales_b) = (normal(seed, DType::F32, &[m], 0.01), normal(seed, DType::F32, &[n], 0.01));
        same(DType::F32, &[m, n], 1e-5, |out, backend| run!(backend, Int8ScaledMm {
            a: a.view(),
            b: b.view(),
            scales_a: scales_a.view(),
            scales_b: scales_b.view(),
            bias: None,
            out: out.view_mut(),
        }));
    }

    #[test]
    fn softmax(rows in 0usize..5, cols in 1usize..500, temperature in 0.1f32..3.0, seed: u64) {
        let logits = normal(seed, DType::F32, &[rows, cols], 5.0);
        same(DType::F32, &[rows, cols], 2e-5, |out, b| {
            run!(b, Softmax { logits: logits.view(), probs: out.view_mut(), temperature })
        });
    }

    /// The draw is a discrete choice, so the kernels must agree exactly but where the uniform number falls on a
    /// border: those cases are as rare as the sums' rounding, and none is among these.
    #[test]
    fn a_drawn_token_is_one_that_the_filters_keep(cols in 1usize..300, top_k in 0usize..20, top_p in 0.05f32..1.0, seed: u64) {
        let logits = normal(seed, DType::F32, &[1, cols], 3.0);
        let x = logits.to_f64_vec().unwrap();
        let mut order: Vec<usize> = (0..cols).collect();
        order.sort_by(|a, b| x[*b].total_cmp(&x[*a]).then(a.cmp(b)));
        order.truncate(if top_k == 0 { cols } else { top_k });
        let weights: Vec<f64> = order.iter().map(|i| (x[*i] - x[order[0]]).exp()).collect();
        let (mut before, target) = (0.0, f64::from(top_p) * weights.iter().sum::<f64>() * (1.0 + 1e-5));
        let kept: Vec<usize> = order.iter().zip(&weights).take_while(|(_, w)| { let keep = before < target; before += **w; keep }).map(|(i, _)| *i).collect();
        let mut ids = zeros(DType::I32, &[1]);
        let Draw { min_p, .. } = Draw::GREEDY;
        Sample { logits: logits.view(), ids: ids.view_mut(), temperature: 1.0, top_k, top_p, min_p, seed }.run().unwrap();
        let id = ids.to_vec::<i32>().unwrap()[0];
        prop_assert!(kept.contains(&(id as usize)), "{id} is not among {kept:?}");
    }
}
