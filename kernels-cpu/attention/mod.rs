//! `attention.*`

mod decode;
mod prefill;
mod rows;
