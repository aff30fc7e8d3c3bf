//! Everything that a driver can refuse, each with an error that says what to do.

use crate::{Suite, device, on_device};
use kernels_core::{CallError, DType, Device, Error, Reason, RunError, Tensor};
use kernels_ops::elementwise::add;
use kernels_ops::embeddings::embedding;
use kernels_ops::layernorm::rmsnorm_into;

/// What a process without this device says of it.
fn no_device<S: Suite>() -> Reason {
    Device::of_driver(S::driver()).expect_err("there is no device").clone()
}

pub fn no_library<S: Suite>() {
    if S::stand_in().without_driver().test("no_library") {
        match no_device::<S>() {
            Reason::RuntimeMissing { library, tried, fix } => {
                assert!(
                    library.contains(S::LIBRARIES.name) && fix.contains(S::LIBRARIES.fix),
                    "{library} {fix}"
                );
                assert!(tried.iter().any(|t| t == S::LIBRARIES.driver), "{tried:?}");
                assert!(tried.iter().any(|t| t.contains("LD_LIBRARY_PATH")), "{tried:?}");
            }
            other => panic!("{other}"),
        }
        // The explanation of a kernel says it too, on a CPU.
        let registry = kernels_core::Registry::linked().unwrap();
        let decision = registry.explain("layernorm.rmsnorm", Device::cpu().platform(), None, None).unwrap();
        let text = decision.to_string();
        assert!(text.contains(S::LIBRARIES.driver), "{text}");
    }
}

pub fn a_driver_without_a_gpu<S: Suite>() {
    if S::stand_in().set("DEVICES", 0).test("a_driver_without_a_gpu") {
        assert!(
            matches!(no_device::<S>(), Reason::NoDevice { detail } if detail.contains(S::WORDS.no_device))
        );
    }
}

pub fn an_image_that_is_not_for_this_device<S: Suite>() {
    let name = "an_image_that_is_not_for_this_device";
    if S::stand_in().set("FAIL", format!("{}:1:200", S::CALLS.load)).test(name) {
        let a = on_device::<S>(&[1.0], &[1]);
        let text = add(&a, &a).unwrap_err().to_string();
        assert!(
            text.contains(&format!("could not be loaded on {}", device::<S>().id()))
                && text.contains(S::WORDS.invalid_image),
            "{text}"
        );
        // The next attempt is a new one.
        assert!(add(&a, &a).is_ok());
    }
}

pub fn a_launch_that_the_driver_refuses<S: Suite>() {
    if S::stand_in().set("FAIL", format!("{}:1:1", S::CALLS.launch)).test("a_launch_that_the_driver_refuses")
    {
        let a = on_device::<S>(&[1.0], &[1]);
        let text = add(&a, &a).unwrap_err().to_string();
        assert!(
            text.contains(&format!("\"elementwise.add\" failed on {}", device::<S>().id()))
                && text.contains(S::WORDS.invalid_value),
            "{text}"
        );
        assert_eq!(add(&a, &a).unwrap().to_vec::<f32>().unwrap(), [2.0]);
    }
}

pub fn a_kernel_that_faults_is_named_by_whoever_waits<S: Suite>() {
    // rmsnorm writes far behind its rows; the ops after it are innocent.
    let cache = tempfile::tempdir().unwrap();
    let fault =
        "o[i] = pk_to<T>::of(pk_load(a[i]) * scale=>o[i + (1ll << 40)] = pk_to<T>::of(pk_load(a[i]) * scale";
    let stand_in = S::stand_in().cache(cache.path()).set("MUTATE", fault);
    if stand_in.test("a_kernel_that_faults_is_named_by_whoever_waits") {
        let (x, w) = (on_device::<S>(&[1.0; 6], &[2, 3]), on_device::<S>(&[1.0; 3], &[3]));
        let mut out = Tensor::zeros(DType::F32, &[2, 3], device::<S>()).unwrap();
        rmsnorm_into(&x, &w, 1e-5, &mut out).expect("queued, and not run yet");
        let sum = add(&x, &x).expect("queued behind it");
        let error = sum.to_vec::<f32>().unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Run(RunError::LaunchFailed { .. })), "{text}");
        assert!(
            text.contains(&format!("\"layernorm.rmsnorm\" failed on {}", device::<S>().id()))
                && text.contains(S::WORDS.illegal_address),
            "{text}"
        );
        // The error sticks, and later calls say whose it was.
        let text = add(&x, &x).unwrap_err().to_string();
        assert!(text.contains("layernorm.rmsnorm"), "{text}");
        assert!(device::<S>().synchronize().unwrap_err().to_string().contains("layernorm.rmsnorm"));
    }
}

pub fn a_bad_index_is_reported_with_its_op_and_once<S: Suite>() {
    if S::stand_in().test("a_bad_index_is_reported_with_its_op_and_once") {
        let table = on_device::<S>(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
        let ids = Tensor::from_slice(&[1i32, 7], &[2]).unwrap().to_device(device::<S>()).unwrap();
        let out = embedding(&ids, &table, DType::F32).unwrap();
        match out.to_vec::<f32>().unwrap_err() {
            Error::Call(CallError::OutOfRange { op, value, range, .. }) => {
                assert_eq!((op, value.as_str(), range.as_str()), ("embeddings.embedding", "7", "0..2"));
            }
            other => panic!("{other}"),
        }
        assert_eq!(out.to_vec::<f32>().unwrap(), [3.0, 4.0, 0.0, 0.0]);
    }
}
