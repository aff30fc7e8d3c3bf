//! `elementwise.*`

mod add;
mod apply;
mod cast;
mod copy;
mod mul;
mod scale;
mod walk;
