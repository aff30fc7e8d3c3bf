//! `attention.*`

mod decode;
mod merge_state;
mod prefill;
mod rows;
mod scores;
mod values;
