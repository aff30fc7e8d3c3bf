//! Parity of every usable kernel with the reference, over all cases of all contracts.

use kernel_registry::Backend;
use kernels_harness::{Filter, assert_parity, parity};

#[test]
fn every_linked_kernel_matches_the_reference() {
    let mut required = vec![Backend::REFERENCE];
    if cfg!(feature = "cpu") {
        required.push(Backend::SIMD);
    }
    if cfg!(feature = "candle") {
        required.push(Backend::CANDLE);
    }
    assert_parity(&required);
}

#[test]
fn a_required_backend_that_runs_nothing_fails() {
    let only = Filter { ops: Some("layernorm.rmsnorm".into()), ..Filter::default() };
    let report = parity(&only, |_, _, _| {}).unwrap();
    assert!(report.verdict(&[Backend::REFERENCE]).is_ok());
    let text = report.verdict(&[Backend("nvrtc")]).unwrap_err();
    assert!(text.contains("\"nvrtc\" was asked for and ran no case"), "{text}");
}
