//! `attention.*`

mod decode;
mod merge_state;
mod prefill;
mod rows;
