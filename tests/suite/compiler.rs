//! The compiler and its cache: missing, refusing, and asked once.

use crate::{Suite, device, on_device};
use kernels_core::{DType, Error, RunError, SelectError, Tensor};
use kernels_gpu::cache::Cache;
use kernels_ops::elementwise::{add, add_into};

pub fn without_a_compiler_a_call_says_what_to_install<S: Suite>() {
    let cache = tempfile::tempdir().unwrap();
    if S::stand_in()
        .cache(cache.path())
        .without_compiler()
        .test("without_a_compiler_a_call_says_what_to_install")
    {
        let a = on_device::<S>(&[1.0], &[1]);
        let error = add(&a, &a).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Select(SelectError::NoneUsable { .. })), "{text}");
        assert!(text.contains(S::LIBRARIES.compiler) && text.contains(S::LIBRARIES.compiler_fix), "{text}");
        let sentence =
            format!("op \"elementwise.add\" has no backend usable on device \"{}\"", device::<S>().id());
        assert!(text.contains(&sentence), "{text}");
    }
}

pub fn without_a_compiler_what_is_cached_runs<S: Suite>() {
    let cache = std::env::temp_dir().join(format!("kernels-cached-{}", std::process::id()));
    if std::env::var_os("STANDIN_INSIDE").is_none() {
        S::stand_in().cache(&cache).test("without_a_compiler_what_is_cached_runs");
        S::stand_in()
            .cache(&cache)
            .without_compiler()
            .variable("WITHOUT", 1)
            .test("without_a_compiler_what_is_cached_runs");
        std::fs::remove_dir_all(&cache).unwrap();
        return;
    }
    let a = on_device::<S>(&[1.0, 2.0], &[2]);
    assert_eq!(add(&a, &a).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
    if std::env::var_os("WITHOUT").is_some() {
        // Another kernel of a source that the cache has: selection lets it through, the call says what is missing.
        let b = a.view().reshape(&[1, 2]).unwrap();
        let mut out = Tensor::zeros(DType::F32, &[2, 2], device::<S>()).unwrap();
        let wide = b.broadcast_to(&[2, 2]).unwrap();
        let error = add_into(wide, wide, &mut out).unwrap_err();
        assert!(matches!(error, Error::Run(RunError::LoadFailed { .. })), "{error}");
        let sentence = format!("the cache has no such kernel for {}", S::TWO_NAMES[0]);
        assert!(error.to_string().contains(&sentence), "{error}");
    }
}

pub fn a_cache_that_cannot_be_written_costs_nothing_but_time<S: Suite>() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let name = "a_cache_that_cannot_be_written_costs_nothing_but_time";
    if S::stand_in().cache(&file.path().join("not-a-folder")).test(name) {
        let a = on_device::<S>(&[1.0], &[1]);
        assert_eq!(add(&a, &a).unwrap().to_vec::<f32>().unwrap(), [2.0]);
    }
}

pub fn a_kernel_is_compiled_once_for_all_processes<S: Suite>() {
    let cache = tempfile::tempdir().unwrap();
    let name = "a_kernel_is_compiled_once_for_all_processes";
    // The second process would fail at its first compilation.
    for fail in [String::new(), format!("{}:1:6", S::CALLS.compile)] {
        if S::stand_in().cache(cache.path()).set("FAIL", &fail).test(name) {
            let a = on_device::<S>(&[1.0], &[1]);
            assert_eq!(add(&a, &a).unwrap().to_vec::<f32>().unwrap(), [2.0]);
            let files = Cache::of_user().unwrap().list().unwrap();
            assert_eq!((files.len(), files[0].entry.arch.as_str()), (1, S::TWO_NAMES[0]));
            return;
        }
    }
}

pub fn a_compile_error_shows_the_compilers_log<S: Suite>() {
    let cache = tempfile::tempdir().unwrap();
    let stand_in = S::stand_in().cache(cache.path()).set("MUTATE", "PK_ENTER(call);=>PK_ENTER(call); what;");
    if stand_in.test("a_compile_error_shows_the_compilers_log") {
        let a = on_device::<S>(&[1.0], &[1]);
        let text = add(&a, &a).unwrap_err().to_string();
        assert!(
            text.contains(&format!("{} refused elementwise", S::COMPILER)) && text.contains(S::TWO_NAMES[0]),
            "{text}"
        );
        assert!(text.contains("what") && text.contains("kernel.cu"), "{text}");
    }
}
