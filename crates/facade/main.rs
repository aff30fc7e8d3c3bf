//! The `kernels` command over everything that the enabled features link.

use kernel_registry as _;

fn main() -> std::process::ExitCode {
    kernel_registry::cli::main()
}
