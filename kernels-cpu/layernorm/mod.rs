//! `layernorm.*`

mod fused_add_rmsnorm;
mod rmsnorm;
