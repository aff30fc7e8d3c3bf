//! Streams, graphs and warm-up: what is queued, recorded or only asked for.

use crate::{Driving, Suite, device, on_device};
use kernels_core::{DType, Stream, Tensor};
use kernels_gpu::host::{Vendor, capture};
use kernels_gpu::warm_up;
use kernels_ops::activation::silu_and_mul_into;
use kernels_ops::elementwise::{add, add_into};
use kernels_ops::layernorm::rmsnorm_into;

pub fn a_stream_of_the_callers_own<S: Suite>() {
    if S::stand_in().test("a_stream_of_the_callers_own") {
        let x = on_device::<S>(&[1.0, 2.0], &[2]);
        let before = add(&x, &x).unwrap();
        // SAFETY: the device is current: `add` was here, and each vendor leaves device 0 current at the start.
        let stream = unsafe { Driving::<S>::new_stream() }.ok().expect("a stream");
        // SAFETY: a live stream of the device, alive until the end.
        unsafe { device::<S>().set_stream(Stream(stream.expose_provenance())).unwrap() };
        assert_eq!(device::<S>().stream(), Stream(stream.addr()));
        // On the new stream, behind what the old one has queued and not run; freed memory too.
        let after = add(&before, &x).unwrap();
        drop(before);
        // SAFETY: as above.
        unsafe { device::<S>().set_stream(Stream(0)).unwrap() };
        let last = add(&after, &x).unwrap();
        drop(after);
        assert_eq!(last.to_vec::<f32>().unwrap(), [4.0, 8.0]);
    }
}

pub fn a_graph_replays_what_it_captured<S: Suite>() {
    if S::stand_in().test("a_graph_replays_what_it_captured") {
        let (x, w) = (on_device::<S>(&[2.0; 8], &[2, 4]), on_device::<S>(&[1.0; 4], &[4]));
        let mut normed = Tensor::zeros(DType::F32, &[2, 4], device::<S>()).unwrap();
        let mut gated = Tensor::zeros(DType::F32, &[2, 2], device::<S>()).unwrap();
        let step = |normed: &mut Tensor, gated: &mut Tensor| {
            rmsnorm_into(&x, &w, 0.0, &mut *normed)?;
            silu_and_mul_into(&*normed, gated)
        };
        // A kernel cannot be loaded inside a capture: the error says to run the calls before.
        let Err(error) = capture::<Driving<S>>(device::<S>(), || step(&mut normed, &mut gated)) else {
            panic!("not loaded yet")
        };
        assert!(error.to_string().contains("warm_up"), "{error}");
        let made = warm_up(|| step(&mut normed, &mut gated), |_, _, _| {}).unwrap();
        assert_eq!(made, 2);
        let graph = capture::<Driving<S>>(device::<S>(), || step(&mut normed, &mut gated)).unwrap();
        assert_eq!(gated.to_vec::<f32>().unwrap(), [0.0; 4], "captured, not run");
        // SAFETY: the tensors are alive, and nothing else uses them.
        unsafe { graph.launch().unwrap() };
        let expected = 1.0 / (1.0 + (-1f32).exp());
        for v in gated.to_vec::<f32>().unwrap() {
            assert!((v - expected).abs() < 1e-6, "{v}");
        }
        // Waiting inside is the caller's fault, and an error.
        let waits = capture::<Driving<S>>(device::<S>(), || device::<S>().synchronize());
        assert!(waits.is_err());
        assert!(step(&mut normed, &mut gated).is_ok(), "the stream is usable again");
    }
}

pub fn warm_up_compiles_what_calls_need_and_runs_nothing<S: Suite>() {
    let cache = tempfile::tempdir().unwrap();
    if S::stand_in().cache(cache.path()).test("warm_up_compiles_what_calls_need_and_runs_nothing") {
        let x = on_device::<S>(&[1.0, 2.0], &[2]);
        let mut out = Tensor::zeros(DType::F32, &[2], device::<S>()).unwrap();
        let heard = std::sync::Mutex::new(Vec::new());
        let made = warm_up(
            || {
                add_into(&x, &x, &mut out)?;
                add_into(&x, &x, &mut out)
            },
            |done, all, _| heard.lock().unwrap().push((done, all)),
        );
        assert_eq!(made.unwrap(), 1);
        assert_eq!(*heard.lock().unwrap(), [(0, 1), (1, 1)]);
        assert_eq!(out.to_vec::<f32>().unwrap(), [0.0, 0.0]);
        add_into(&x, &x, &mut out).unwrap();
        assert_eq!(out.to_vec::<f32>().unwrap(), [2.0, 4.0]);
        // A kernel that cannot be made is an error of the warm-up.
        let made = warm_up(|| add_into(&x, &x, &mut out), |_, _, _| {});
        assert_eq!(made.unwrap(), 0, "all of it is there");
    }
}
