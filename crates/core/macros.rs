//! The three declarations: an op, a backend crate, a kernel.

/// Declares an op: its argument struct (which is also the op's type), and its place in the registry.
///
/// ```
/// use kernels_core::{CallError, Ctx, Key, RunError, Valid};
///
/// kernels_core::op! {
///     /// Twice the input.
///     pub struct Double = "toy.double" {
///         /// `[n]`
///         reads x,
///         /// `[n]`
///         writes out,
///         /// How often.
///         value times: usize,
///     }
/// }
///
/// impl Double<'_> {
///     fn validate(&self) -> Result<Valid, CallError> {
///         Ok(Valid { key: Key::of(self.x.dtype()), empty: self.x.dim(0) == 0 })
///     }
/// }
/// # kernels_core::backend! { backends: [], driver: &kernels_core::HOST }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! op {
    (
        $(#[doc = $doc:literal])+
        pub struct $op:ident = $name:literal { $( $(#[$fdoc:meta])* $kind:ident $field:ident $(: $ty:ty)? ),+ $(,)? }
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug)]
        pub struct $op<'a> { $( $(#[$fdoc])* pub $field: $crate::op!(@type 'a $kind $($ty)?) ),+ }

        const _: () = {
            static STATE: $crate::OpState<$op<'static>> = $crate::OpState::new();
            static INFO: $crate::OpInfo = $crate::OpInfo {
                name: $name,
                summary: $crate::op!(@first $($doc)+),
                tensors: &[$( $crate::op!(@tensor_name $kind $field) ),+],
                origin: $crate::origin!(),
            };
            $crate::inventory::submit! { $crate::OpEntry(&INFO) }

            impl $crate::Op for $op<'static> {
                const NAME: &'static str = $name;
                type Args<'a> = $op<'a>;
                fn validate(args: &$op<'_>) -> ::std::result::Result<$crate::Valid, $crate::CallError> {
                    args.validate()
                }
                fn tensors(
                    args: &$op<'_>,
                    see: &mut dyn FnMut(&'static str, $crate::DType, &$crate::Layout, $crate::Device),
                ) {
                    $( $crate::op!(@see args see $kind $field); )+
                }
                type Run = for<'c, 'r, 'a> unsafe fn(
                    &'c $crate::Ctx,
                    &'r $op<'a>,
                ) -> ::std::result::Result<(), $crate::RunError>;
                type Workspace = for<'r, 'a> fn(&'r $op<'a>, usize) -> usize;
                unsafe fn invoke(
                    run: Self::Run,
                    ctx: &$crate::Ctx,
                    args: &$op<'_>,
                ) -> ::std::result::Result<(), $crate::RunError> {
                    // SAFETY: passed on.
                    unsafe { run(ctx, args) }
                }
                fn workspace(of: Self::Workspace, args: &$op<'_>, threads: usize) -> usize {
                    of(args, threads)
                }
                fn state() -> &'static $crate::OpState<Self> { &STATE }
            }

            impl<'a> $op<'a> {
                /// The op's name.
                pub const OP: &'static str = $name;
                /// Checks the arguments against the contract.
                ///
                /// # Errors
                /// The first argument that does not fit.
                pub fn check(self) -> $crate::Result<$crate::Checked<'a, $op<'static>>> {
                    $crate::Checked::new(self)
                }
                /// Checks the arguments, and runs the best kernel for them.
                ///
                /// # Errors
                /// An argument that does not fit, no usable kernel, or the kernel's failure.
                pub fn run(self) -> $crate::Result<()> {
                    self.check()?.run()
                }
            }
        };
    };
    (@type $l:lifetime reads) => { $crate::View<$l> };
    (@type $l:lifetime maybe) => { ::std::option::Option<$crate::View<$l>> };
    (@type $l:lifetime maybe_writes) => { ::std::option::Option<$crate::ViewMut<$l>> };
    (@type $l:lifetime writes) => { $crate::ViewMut<$l> };
    (@type $l:lifetime value $ty:ty) => { $ty };
    (@first $first:literal $($rest:literal)*) => { $first };
    (@tensor_name value $field:ident) => { "" };
    (@tensor_name $kind:ident $field:ident) => { stringify!($field) };
    (@see $args:ident $see:ident value $field:ident) => {};
    (@see $args:ident $see:ident maybe $field:ident) => {
        if let Some(v) = &$args.$field { $see(stringify!($field), v.dtype(), v.layout(), v.device()) }
    };
    (@see $args:ident $see:ident maybe_writes $field:ident) => {
        if let Some(v) = &$args.$field { $see(stringify!($field), v.dtype(), v.layout(), v.device()) }
    };
    (@see $args:ident $see:ident $kind:ident $field:ident) => {
        $see(stringify!($field), $args.$field.dtype(), $args.$field.layout(), $args.$field.device())
    };
}

/// Declares a backend crate, once, at its root: `backend! { backends: [Backend::SIMD], driver: &HOST }`.
#[macro_export]
macro_rules! backend {
    (backends: [$($backend:expr),* $(,)?], driver: $driver:expr $(,)?) => {
        /// For the compiler to see that no two kernels of this crate have one place; in the manifest's name, so that
        /// who imports one has both.
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        pub enum MANIFEST {}

        /// What this crate brings.
        pub static MANIFEST: $crate::Manifest = $crate::Manifest {
            package: env!("CARGO_PKG_NAME"),
            version: env!("CARGO_PKG_VERSION"),
            backends: &[$($backend),*],
            driver: $driver,
        };
        #[cfg(not(any(miri, target_family = "wasm")))]
        const _: () = {
            #[$crate::linkme::distributed_slice($crate::MANIFESTS)]
            #[linkme(crate = $crate::linkme)]
            static ENTRY: &'static $crate::Manifest = &MANIFEST;
        };
    };
}

/// Registers a kernel beside its function. The word `unsafe` is the author's promise to
/// [`Kernel::new`](crate::Kernel::new); a function with another op's arguments does not compile.
///
/// ```
/// use kernels_core::*;
/// # kernels_core::backend! { backends: [Backend("toy")], driver: &HOST }
/// # kernels_core::op! {
/// #     /// Twice the input.
/// #     pub struct Double = "toy.double" {
/// #         /// `[n]`
/// #         reads x,
/// #         /// `[n]`
/// #         writes out,
/// #     }
/// # }
/// # impl Double<'_> {
/// #     fn validate(&self) -> Result<Valid, CallError> {
/// #         Ok(Valid { key: Key::of(self.x.dtype()), empty: false })
/// #     }
/// # }
/// unsafe fn double(_: &Ctx, a: &Double<'_>) -> Result<(), RunError> {
///     for i in 0..a.x.dim(0) {
///         // SAFETY: i is inside both.
///         unsafe { a.out.as_mut_ptr::<f32>().add(i).write(2.0 * *a.x.as_ptr::<f32>().add(i)) };
///     }
///     Ok(())
/// }
///
/// kernel!(unsafe {
///     op: Double,
///     backend: Backend("toy"),
///     variant: "portable",
///     formats: Formats::same(DTypeSet::of(&[DType::F32])),
///     run: double,
///     requires: &[Requirement::any(DeviceKind::CPU)],   // any further field of KernelSpec
/// });
/// # fn main() -> Result<()> {
/// # let registry = Registry::linked()?;
/// # assert_eq!(registry.specs().next().map(|s| s.id()).as_deref(), Some("toy-portable-toy.double-f32"));
/// # Ok(())
/// # }
/// ```
///
/// Another op's arguments are a type error:
///
/// ```compile_fail,E0308
/// use kernels_core::*;
/// # kernels_core::backend! { backends: [Backend("toy")], driver: &HOST }
/// # kernels_core::op! {
/// #     /// Twice the input.
/// #     pub struct Double = "toy.double" {
/// #         /// `[n]`
/// #         reads x,
/// #         /// `[n]`
/// #         writes out,
/// #     }
/// # }
/// # impl Double<'_> {
/// #     fn validate(&self) -> Result<Valid, CallError> {
/// #         Ok(Valid { key: Key::of(self.x.dtype()), empty: false })
/// #     }
/// # }
/// unsafe fn double(_: &Ctx, x: &[f32]) -> Result<(), RunError> {
///     Ok(())
/// }
///
/// kernel!(unsafe {
///     op: Double,
///     backend: Backend("toy"),
///     variant: "",
///     formats: Formats::same(DTypeSet::FLOAT),
///     run: double
/// });
/// # fn main() {}
/// ```
#[macro_export]
// The manifest is the caller's crate's, not this one's.
#[allow(clippy::crate_in_macro_def)]
macro_rules! kernel {
    (unsafe {
        op: $op:ident,
        backend: $backend:expr,
        variant: $variant:expr,
        formats: $formats:expr,
        run: $run:expr
        $(; workspace: $workspace:expr)?
        $(, $field:ident : $value:expr)* $(,)?
    }) => {
        const _: () = {
            static KERNEL: $crate::Kernel<$op<'static>> = {
                let spec = $crate::KernelSpec {
                    backend: $backend,
                    variant: $variant,
                    formats: $formats,
                    $($field: $value,)*
                    ..$crate::KernelSpec::new(
                        <$op<'static> as $crate::Op>::NAME,
                        &crate::MANIFEST,
                        $crate::origin!(),
                    )
                };
                // Here the function's type is checked against the op's.
                let run: <$op<'static> as $crate::Op>::Run = $run;
                let workspace = $crate::kernel!(@workspace $op $($workspace)?);
                // SAFETY: promised by the author with the word `unsafe`.
                unsafe { $crate::Kernel::new(spec, run, workspace) }
            };
            $crate::inventory::submit! { $crate::KernelEntry(&KERNEL) }
            impl
                $crate::TwoKernelsOfOneOpAndBackendNeedDifferentVariantsOrFormats<
                    { $crate::place(<$op<'static> as $crate::Op>::NAME, $backend, $variant, $formats) },
                > for crate::MANIFEST
            {
            }
        };
    };
    (@workspace $op:ident) => { ::std::option::Option::None };
    (@workspace $op:ident $workspace:expr) => {{
        let workspace: <$op<'static> as $crate::Op>::Workspace = $workspace;
        ::std::option::Option::Some(workspace)
    }};
    ({ $($other:tt)* }) => {
        compile_error!(
            "write `kernel!(unsafe { .. })`: the word is your promise that the spec's requirements cover every instruction \
             that the function executes, and that it stays within its tensors whatever indices they hold"
        );
    };
    ($($other:tt)*) => {
        compile_error!(
            "kernel!(unsafe { op: Op, backend: .., variant: .., formats: .., run: f, <spec field>: .. }): the word \
             `unsafe`, then these five fields in this order (`run: f; workspace: w` where it needs scratch), then any other field of KernelSpec"
        );
    };
}

/// States which features that bring a backend are on and off, so that an enabled crate that the linker
/// dropped is an error. `"feature" => "crate" serves "kind"`.
#[macro_export]
macro_rules! features {
    ($($feature:literal => $package:literal serves $kind:literal),* $(,)?) => {
        #[cfg(not(any(miri, target_family = "wasm")))]
        const _: () = {
            static REPORT: $crate::FeatureReport = $crate::FeatureReport {
                package: env!("CARGO_PKG_NAME"),
                on: &[$( #[cfg(feature = $feature)] ($feature, $package) ),*],
                off: &[$( #[cfg(not(feature = $feature))] ($feature, $kind) ),*],
            };
            #[$crate::linkme::distributed_slice($crate::FEATURES)]
            #[linkme(crate = $crate::linkme)]
            static ENTRY: &'static $crate::FeatureReport = &REPORT;
        };
    };
}

/// Where the caller is.
#[doc(hidden)]
#[macro_export]
macro_rules! origin {
    () => {
        $crate::Origin {
            package: env!("CARGO_PKG_NAME"),
            version: env!("CARGO_PKG_VERSION"),
            file: file!(),
            line: line!(),
        }
    };
}
