//! `attention.*`

use super::{close, each, run};
use kernel_registry::ops::attention::{Decode, MergeState, Prefill};

#[test]
fn decode() {
    each::<Decode>(|c, b| {
        let (mut out, mut lse) = (c.like("expected"), c.like("expected_lse"));
        let args = Decode {
            q: c.view("q"),
            key_cache: c.view("key_cache"),
            value_cache: c.view("value_cache"),
            block_table: c.view("block_table"),
            seq_lens: c.view("seq_lens"),
            sinks: c.maybe("sinks"),
            out: out.view_mut(),
            lse: Some(lse.view_mut()),
            sm_scale: c.number("sm_scale"),
            logit_cap: c.number("logit_cap"),
            window: c.size("window"),
            k_scale: c.number("k_scale"),
            v_scale: c.number("v_scale"),
        };
        run!(b, args);
        close(c, b, &out, c.get("expected"), 1e-5);
        close(c, b, &lse, c.get("expected_lse"), 5e-6);
    });
}

#[test]
fn prefill() {
    each::<Prefill>(|c, b| {
        let (mut out, mut lse) = (c.like("expected"), c.like("expected_lse"));
        let args = Prefill {
            q: c.view("q"),
            key_cache: c.view("key_cache"),
            value_cache: c.view("value_cache"),
            block_table: c.view("block_table"),
            seq_lens: c.view("seq_lens"),
            qo_indptr: c.view("qo_indptr"),
            sinks: c.maybe("sinks"),
            mask: c.maybe("mask"),
            mask_indptr: c.maybe("mask_indptr"),
            out: out.view_mut(),
            lse: Some(lse.view_mut()),
            sm_scale: c.number("sm_scale"),
            logit_cap: c.number("logit_cap"),
            window: c.size("window"),
            k_scale: c.number("k_scale"),
            v_scale: c.number("v_scale"),
            is_causal: c.flag("is_causal"),
        };
        run!(b, args);
        close(c, b, &out, c.get("expected"), 1e-5);
        close(c, b, &lse, c.get("expected_lse"), 5e-6);
    });
}

#[test]
fn merge_state() {
    each::<MergeState>(|c, b| {
        let (mut out, mut lse) = (c.like("expected"), c.like("expected_lse"));
        let (out_a, lse_a, out_b, lse_b) =
            (c.view("out_a"), c.view("lse_a"), c.view("out_b"), c.view("lse_b"));
        run!(b, MergeState { out_a, lse_a, out_b, lse_b, out: out.view_mut(), lse: lse.view_mut() });
        close(c, b, &out, c.get("expected"), 2e-6);
        close(c, b, &lse, c.get("expected_lse"), 1e-6);
    });
}
