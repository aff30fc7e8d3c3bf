//! `embeddings.*` and `kvcache.*`

use super::{Case, close, each, run};
use kernel_registry::ops::embeddings::{Embedding, Rope};
use kernel_registry::ops::kvcache::{QkNormRopeStore, ReshapeAndCache, RopeAndCache};
use kernel_registry::{Backend, Tensor};

#[test]
fn embedding() {
    each::<Embedding>(|c, b| {
        let mut out = c.like("expected");
        run!(b, Embedding { ids: c.view("ids"), table: c.view("table"), out: out.view_mut() });
        close(c, b, &out, c.get("expected"), 0.0);
    });
}

#[test]
fn rope() {
    each::<Rope>(|c, b| {
        let (mut q, mut k) = (c.copy("q"), c.copy("k"));
        let (positions, cos_sin_cache) = (c.view("positions"), c.view("cos_sin_cache"));
        let is_neox = c.flag("is_neox");
        run!(b, Rope { positions, q: q.view_mut(), k: k.view_mut(), cos_sin_cache, is_neox });
        close(c, b, &q, c.get("expected_q"), 1e-6);
        close(c, b, &k, c.get("expected_k"), 1e-6);
    });
}

fn same_bytes(c: &Case, b: Backend, got: &Tensor, name: &str) {
    assert_eq!(got.to_bytes().unwrap(), c.get(name).to_bytes().unwrap(), "{}: {name} on {b}", c.name);
}

#[test]
fn reshape_and_cache() {
    each::<ReshapeAndCache>(|c, b| {
        let (mut keys, mut values) = (c.copy("key_cache"), c.copy("value_cache"));
        let args = ReshapeAndCache {
            key: c.view("key"),
            value: c.view("value"),
            key_cache: keys.view_mut(),
            value_cache: values.view_mut(),
            slot_mapping: c.view("slot_mapping"),
            k_scale: c.number("k_scale"),
            v_scale: c.number("v_scale"),
        };
        run!(b, args);
        same_bytes(c, b, &keys, "expected_keys");
        same_bytes(c, b, &values, "expected_values");
    });
}

#[test]
fn rope_and_cache() {
    each::<RopeAndCache>(|c, b| {
        let (mut q, mut k) = (c.copy("q"), c.copy("k"));
        let (mut keys, mut values) = (c.copy("key_cache"), c.copy("value_cache"));
        let args = RopeAndCache {
            positions: c.view("positions"),
            q: q.view_mut(),
            k: k.view_mut(),
            value: c.view("value"),
            cos_sin_cache: c.view("cos_sin_cache"),
            key_cache: keys.view_mut(),
            value_cache: values.view_mut(),
            slot_mapping: c.view("slot_mapping"),
            is_neox: c.flag("is_neox"),
            k_scale: c.number("k_scale"),
            v_scale: c.number("v_scale"),
        };
        run!(b, args);
        close(c, b, &q, c.get("expected_q"), 1e-6);
        close(c, b, &k, c.get("expected_k"), 1e-6);
        close(c, b, &keys, c.get("expected_keys"), 1e-6);
        same_bytes(c, b, &values, "expected_values");
    });
}

#[test]
fn qk_norm_rope_store() {
    each::<QkNormRopeStore>(|c, b| {
        let (mut q, mut k) = (c.copy("q"), c.copy("k"));
        let (mut keys, mut values) = (c.copy("key_cache"), c.copy("value_cache"));
        let args = QkNormRopeStore {
            positions: c.view("positions"),
            q: q.view_mut(),
            k: k.view_mut(),
            value: c.view("value"),
            q_weight: c.view("q_weight"),
            k_weight: c.view("k_weight"),
            cos_sin_cache: c.view("cos_sin_cache"),
            key_cache: keys.view_mut(),
            value_cache: values.view_mut(),
            slot_mapping: c.view("slot_mapping"),
            eps: c.number("eps"),
            is_neox: c.flag("is_neox"),
            k_scale: 1.0,
            v_scale: 1.0,
        };
        run!(b, args);
        close(c, b, &q, c.get("expected_q"), 4e-6);
        close(c, b, &k, c.get("expected_k"), 4e-6);
        close(c, b, &keys, c.get("expected_keys"), 4e-6);
        same_bytes(c, b, &values, "expected_values");
    });
}
