//! `sampling.*`

use super::{close, each, run};
use kernel_registry::ops::sampling::{ApplyMask, Penalties, Sample, Softmax, TopKRenorm, TopPRenorm};

#[test]
fn softmax() {
    each::<Softmax>(|c, b| {
        let mut probs = c.like("expected");
        let temperature = c.number("temperature");
        run!(b, Softmax { logits: c.view("logits"), probs: probs.view_mut(), temperature });
        close(c, b, &probs, c.get("expected"), 2e-6);
    });
}

#[test]
fn sample() {
    each::<Sample>(|c, b| {
        let mut ids = c.like("expected");
        let (temperature, top_p, min_p) = (c.number("temperature"), c.number("top_p"), c.number("min_p"));
        let (top_k, seed) = (c.size("top_k"), c.size("seed") as u64);
        run!(
            b,
            Sample { logits: c.view("logits"), ids: ids.view_mut(), temperature, top_k, top_p, min_p, seed }
        );
        close(c, b, &ids, c.get("expected"), 0.0);
    });
}

#[test]
fn top_k_renorm() {
    each::<TopKRenorm>(|c, b| {
        let mut out = c.like("expected");
        run!(b, TopKRenorm { probs: c.view("probs"), k: c.view("k"), out: out.view_mut() });
        close(c, b, &out, c.get("expected"), 1e-6);
    });
}

#[test]
fn top_p_renorm() {
    each::<TopPRenorm>(|c, b| {
        let mut out = c.like("expected");
        run!(b, TopPRenorm { probs: c.view("probs"), p: c.view("p"), out: out.view_mut() });
        close(c, b, &out, c.get("expected"), 1e-6);
    });
}

#[test]
fn apply_mask() {
    each::<ApplyMask>(|c, b| {
        let mut logits = c.copy("logits");
        run!(b, ApplyMask { logits: logits.view_mut(), mask: c.view("mask") });
        close(c, b, &logits, c.get("expected"), 0.0);
    });
}

#[test]
fn penalties() {
    each::<Penalties>(|c, b| {
        let mut logits = c.copy("logits");
        let args = Penalties {
            logits: logits.view_mut(),
            prompt_tokens: c.maybe("prompt_tokens"),
            output_tokens: c.view("output_tokens"),
            repetition: c.view("repetition"),
            frequency: c.view("frequency"),
            presence: c.view("presence"),
        };
        run!(b, args);
        close(c, b, &logits, c.get("expected"), 2e-6);
    });
}
