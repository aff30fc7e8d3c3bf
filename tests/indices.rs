//! Indices are data: one out of range is reported, never followed.

use kernel_registry::ops::attention::{Decode, Prefill};
use kernel_registry::ops::embeddings::{Embedding, Rope, cos_sin_cache};
use kernel_registry::ops::kvcache::ReshapeAndCache;
use kernel_registry::ops::sampling::{Draw, Penalties, TopKRenorm, sample_into};
use kernel_registry::{Backend, CallError, DType, Device, DeviceKind, Error, Op, Registry, Result, Tensor};

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(DType::F32, shape, Device::cpu()).unwrap()
}

fn ints(values: &[i64], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape).unwrap()
}

fn out_of_range(result: Result<()>, value: &str) {
    match result.unwrap_err() {
        Error::Call(CallError::OutOfRange { value: found, .. }) => assert_eq!(found, value),
        other => panic!("{other}"),
    }
}

/// Each linked CPU backend that has a kernel of the op.
fn each_backend<O: Op>(check: impl Fn(Backend)) {
    let here = |s: &&kernel_registry::KernelSpec| s.op == O::NAME && s.kinds().contains(&DeviceKind::CPU);
    let mut backends: Vec<_> = Registry::linked().unwrap().specs().filter(here).map(|s| s.backend).collect();
    backends.sort();
    backends.dedup();
    backends.into_iter().for_each(check);
}

#[test]
fn token_ids() {
    let table = Tensor::from_slice(&[1f32; 12], &[3, 4]).unwrap();
    for bad in [3, -1, i64::MAX, i64::MIN] {
        each_backend::<Embedding>(|b| {
            let (ids, mut out) = (ints(&[1, bad], &[2]), Tensor::from_slice(&[7f32; 8], &[2, 4]).unwrap());
            let args = Embedding { ids: ids.view(), table: table.view(), out: out.view_mut() };
            out_of_range(args.check().unwrap().run_on(b), &bad.to_string());
            assert_eq!(out.to_f32_vec().unwrap(), [1., 1., 1., 1., 0., 0., 0., 0.]);
        });
    }
}

#[test]
fn positions() {
    let cache = cos_sin_cache(4, 8, 10_000.0).unwrap();
    each_backend::<Rope>(|b| {
        let (positions, mut q, mut k) = (ints(&[4], &[1]), zeros(&[1, 1, 8]), zeros(&[1, 1, 8]));
        let cos_sin_cache = cache.view();
        let args = Rope {
            positions: positions.view(),
            q: q.view_mut(),
            k: k.view_mut(),
            cos_sin_cache,
            is_neox: true,
        };
        out_of_range(args.check().unwrap().run_on(b), "4");
    });
}

#[test]
fn slots_below_zero_are_skipped_and_beyond_the_cache_reported() {
    each_backend::<ReshapeAndCache>(|b| {
        for (slot, reported) in [(-1, false), (i64::MIN, false), (8, true), (i64::MAX, true)] {
            let (kv, slots) = (Tensor::from_slice(&[1f32; 4], &[1, 1, 4]).unwrap(), ints(&[slot], &[1]));
            let (mut keys, mut values) = (zeros(&[2, 4, 1, 4]), zeros(&[2, 4, 1, 4]));
            let args = ReshapeAndCache {
                key: kv.view(),
                value: kv.view(),
                key_cache: keys.view_mut(),
                value_cache: values.view_mut(),
                slot_mapping: slots.view(),
                k_scale: 1.0,
                v_scale: 1.0,
            };
            let result = args.check().unwrap().run_on(b);
            match reported {
                true => out_of_range(result, &slot.to_string()),
                false => result.unwrap(),
            }
            assert!(keys.to_f32_vec().unwrap().iter().all(|x| *x == 0.0));
        }
    });
}

#[test]
fn blocks_lengths_and_offsets_of_attention() {
    let (keys, q) = (zeros(&[2, 4, 1, 8]), zeros(&[2, 1, 8]));
    each_backend::<Decode>(|b| {
        for (table, len, bad) in [([0, 2], 8, "2"), ([-1, 0], 8, "-1"), ([0, 1], 9, "9"), ([0, 1], -3, "-3")]
        {
            let (block_table, seq_lens, mut out) =
                (ints(&table, &[1, 2]), ints(&[len], &[1]), zeros(&[1, 1, 8]));
            let args = Decode {
                q: q.view().narrow(0, 0, 1).unwrap(),
                key_cache: keys.view(),
                value_cache: keys.view(),
                block_table: block_table.view(),
                seq_lens: seq_lens.view(),
                sinks: None,
                out: out.view_mut(),
                lse: None,
                sm_scale: 1.0,
                logit_cap: 0.0,
                window: 0,
                k_scale: 1.0,
                v_scale: 1.0,
            };
            out_of_range(args.check().unwrap().run_on(b), bad);
        }
        for (offsets, bad) in [
            ([0, 3], "3"),
            ([0, 1], "1"),
            ([1, 2], "1"),
            ([0, -1], "-1"),
            ([0, i64::MAX], "9223372036854775807"),
        ] {
            let (block_table, seq_lens, indptr) =
                (ints(&[0, 1], &[1, 2]), ints(&[8], &[1]), ints(&offsets, &[2]));
            let mut out = Tensor::from_slice(&[7f32; 16], &[2, 1, 8]).unwrap();
            let args = Prefill {
                q: q.view(),
                key_cache: keys.view(),
                value_cache: keys.view(),
                block_table: block_table.view(),
                seq_lens: seq_lens.view(),
                qo_indptr: indptr.view(),
                sinks: None,
                mask: None,
                mask_indptr: None,
                out: out.view_mut(),
                lse: None,
                sm_scale: 1.0,
                logit_cap: 0.0,
                window: 0,
                k_scale: 1.0,
                v_scale: 1.0,
                is_causal: true,
            };
            out_of_range(args.check().unwrap().run_on(b), bad);
            assert!(out.to_f32_vec().unwrap().iter().all(|x| *x == 0.0), "unused rows are zero");
        }
    });
}

#[test]
fn rows_that_leave_no_choice() {
    for values in [[f32::NAN, 1.0, 2.0], [f32::NEG_INFINITY; 3], [f32::INFINITY, 0.0, 1.0]] {
        for draw in [Draw::GREEDY, Draw { temperature: 1.0, top_k: 2, ..Draw::GREEDY }] {
            let (logits, mut ids) =
                (Tensor::from_slice(&values, &[1, 3]).unwrap(), Tensor::from_slice(&[5i32], &[1]).unwrap());
            let error = sample_into(&logits, draw, &mut ids).unwrap_err();
            assert!(matches!(error, Error::Call(CallError::NotANumber { row: 0, .. })), "{error}");
            assert_eq!(ids.to_vec::<i32>().unwrap(), [-1]);
        }
    }
}

#[test]
fn masks_of_prefill_and_tokens_of_penalties_and_counts() {
    let (keys, q) = (zeros(&[2, 4, 1, 8]), zeros(&[2, 1, 8]));
    each_backend::<Prefill>(|b| {
        // Two rows over six tokens need twelve bytes: there are ten, or they begin before the first.
        for (start, bad) in [(0, "0"), (-1, "-1"), (i64::MAX, "9223372036854775807")] {
            let (table, lens, offsets) = (ints(&[0, 1], &[1, 2]), ints(&[6], &[1]), ints(&[0, 2], &[2]));
            let (mask, indptr) = (Tensor::from_slice(&[1u8; 10], &[10]).unwrap(), ints(&[start], &[1]));
            let mut out = Tensor::from_slice(&[7f32; 16], &[2, 1, 8]).unwrap();
            let args = Prefill {
                q: q.view(),
                key_cache: keys.view(),
                value_cache: keys.view(),
                block_table: table.view(),
                seq_lens: lens.view(),
                qo_indptr: offsets.view(),
                sinks: None,
                mask: Some(mask.view()),
                mask_indptr: Some(indptr.view()),
                out: out.view_mut(),
                lse: None,
                sm_scale: 1.0,
                logit_cap: 0.0,
                window: 0,
                k_scale: 1.0,
                v_scale: 1.0,
                is_causal: true,
            };
            out_of_range(args.check().unwrap().run_on(b), bad);
            assert!(out.to_f32_vec().unwrap().iter().all(|x| *x == 0.0), "hidden rows see nothing");
        }
    });
    each_backend::<Penalties>(|b| {
        let (one, mut logits, tokens) = (
            Tensor::from_slice(&[2f32], &[1]).unwrap(),
            Tensor::from_slice(&[1f32, 4.0], &[1, 2]).unwrap(),
            ints(&[1, 2, -7], &[1, 3]),
        );
        let args = Penalties {
            logits: logits.view_mut(),
            prompt_tokens: None,
            output_tokens: tokens.view(),
            repetition: one.view(),
            frequency: one.view(),
            presence: one.view(),
        };
        out_of_range(args.check().unwrap().run_on(b), "2");
        assert_eq!(logits.to_f32_vec().unwrap(), [1.0, 4.0 / 2.0 - 2.0 - 2.0]);
    });
    each_backend::<TopKRenorm>(|b| {
        let (probs, k) = (Tensor::from_slice(&[0.5f32, 0.5], &[1, 2]).unwrap(), ints(&[-1], &[1]));
        let mut out = zeros(&[1, 2]);
        let args = TopKRenorm { probs: probs.view(), k: k.view(), out: out.view_mut() };
        out_of_range(args.check().unwrap().run_on(b), "-1");
    });
}
