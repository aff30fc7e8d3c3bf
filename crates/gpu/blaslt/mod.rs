//! Matrix products by a vendor's library: cuBLASLt's and hipBLASLt's interface, which is one but for names and numbers.
//! A backend crate brings a [`Table`] and registers [`linear`] and, where the library has it, [`fp8_scaled_mm`].

mod plan;
mod product;
mod table;

pub use product::{WORKSPACE, fp8_scaled_mm, linear, takes_fp8};
pub use table::{Api, BlasLt, Constants, Heuristic, Table};
