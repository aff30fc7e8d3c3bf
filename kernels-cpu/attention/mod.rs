//! `attention.*`

mod chunk;
mod decode;
mod halves;
mod merge_state;
mod pairs;
mod panels;
mod prefill;
mod products;
mod rows;
mod scores;
mod state;
#[cfg(target_arch = "x86_64")]
mod tiles;
mod values;
