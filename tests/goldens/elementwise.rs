//! `elementwise.*`

use super::{close, each, run};
use kernel_registry::ops::elementwise::{Add, Cast, Copy, Mul, Scale};

#[test]
fn add() {
    each::<Add>(|c, b| {
        let mut out = c.like("expected");
        run!(b, Add { a: c.view("a"), b: c.view("b"), out: out.view_mut() });
        close(c, b, &out, c.get("expected"), 1e-7);
    });
}

#[test]
fn mul() {
    each::<Mul>(|c, b| {
        let mut out = c.like("expected");
        run!(b, Mul { a: c.view("a"), b: c.view("b"), out: out.view_mut() });
        close(c, b, &out, c.get("expected"), 1e-7);
    });
}

#[test]
fn scale() {
    each::<Scale>(|c, b| {
        let mut out = c.like("expected");
        run!(b, Scale { x: c.view("x"), out: out.view_mut(), factor: c.number("factor") });
        close(c, b, &out, c.get("expected"), 1e-7);
    });
}

#[test]
fn cast() {
    each::<Cast>(|c, b| {
        let mut out = c.like("expected");
        run!(b, Cast { x: c.view("x"), out: out.view_mut() });
        assert_eq!(out.to_bytes().unwrap(), c.get("expected").to_bytes().unwrap(), "{} on {b}", c.name);
    });
}

#[test]
fn copy() {
    each::<Copy>(|c, b| {
        let mut out = c.like("expected");
        run!(b, Copy { x: c.view("x").transpose(0, 1).unwrap(), out: out.view_mut() });
        assert_eq!(out.to_bytes().unwrap(), c.get("expected").to_bytes().unwrap(), "{} on {b}", c.name);
    });
}
