//! The device is not there.

use app as _;
use kernel_registry::{Backend, Registry};
use std::sync::atomic::Ordering;

#[test]
fn its_absence_has_words_and_a_required_run_fails() {
    kernels_toy::DEVICES.store(0, Ordering::Relaxed);
    let text = Registry::linked().unwrap().device("toy:0").unwrap_err().to_string();
    let expected =
        "device \"toy:0\" is not available: libtoy is not installed (tried libtoy.so.1)\n  fix: install the toy runtime\n";
    assert!(text.starts_with(expected), "{text}");
    let norms = kernels_harness::Filter { ops: Some("layernorm.*".into()), ..Default::default() };
    let report = kernels_harness::parity(&norms, |_, _, _| {}).unwrap();
    let text = report.verdict(&[Backend("toy")]).unwrap_err();
    assert!(text.contains("backend \"toy\" was asked for and ran no case"), "{text}");
    assert!(report.verdict(&[Backend::SIMD]).is_ok());
}
