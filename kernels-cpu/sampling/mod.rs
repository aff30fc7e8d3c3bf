//! `sampling.*`

mod sample;
mod softmax;
