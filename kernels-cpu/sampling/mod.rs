//! `sampling.*`

mod apply_mask;
mod border;
mod penalties;
mod renorm;
mod sample;
mod softmax;
mod top;
mod top_k_renorm;
mod top_p_renorm;
