//! How an op's file declares its kernel's host side.

/// A function that launches an op's kernels: `gpu_op! { run_name for Op |gpu, a| { .. } }`, or with
/// the context `|gpu, a, ctx|`.
macro_rules! gpu_op {
    ($run:ident for $op:ident |$gpu:ident, $a:ident| $body:block) => {
        $crate::op::gpu_op!(@with ctx, $run for $op |$gpu, $a| $body);
    };
    ($run:ident for $op:ident |$gpu:ident, $a:ident, $ctx:ident| $body:block) => {
        $crate::op::gpu_op!(@with $ctx, $run for $op |$gpu, $a| $body);
    };
    (@with $ctx:ident, $run:ident for $op:ident |$gpu:ident, $a:ident| $body:block) => {
        #[doc = concat!("Queues `", stringify!($op), "`.")]
        ///
        /// # Safety
        /// Checked arguments on a device of `R`.
        ///
        /// # Errors
        /// The kernel cannot be made or launched.
        pub unsafe fn $run<R: $crate::Runtime>(
            $ctx: &kernels_core::Ctx,
            $a: &$op<'_>,
        ) -> Result<(), kernels_core::RunError> {
            let $gpu = $crate::Gpu::<R>::new($ctx, $op::OP, const { $crate::op_number($op::OP) });
            // SAFETY: the parameters are what the kernel takes, of checked arguments.
            unsafe { $body }
        }
    };
}
pub(crate) use gpu_op;
