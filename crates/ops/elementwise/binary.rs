//! What `add` and `mul` share.

/// A whole op of this family.
macro_rules! binary_op {
    ($(#[doc = $doc:literal])+ $op:ident = $name:literal; fn $plain:ident, $into:ident; $operator:tt) => {
        use crate::element::{at, offsets, put};
        use crate::elementwise::strided::{self, Shaped};
        use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
        use kernels_core::{CallError, Ctx, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

        kernels_core::op! {
            $(#[doc = $doc])+
            #[doc = ""]
            #[doc = "In f32, rounded once. All tensors have one type (f32, f16 or bf16) and one shape; a stride of 0"]
            #[doc = "repeats an input (`View::broadcast_to`)."]
            pub struct $op = $name {
                /// Any shape of up to five dimensions, any strides.
                reads a,
                /// Shape and type of `a`.
                reads b,
                /// Shape and type of `a`.
                writes out,
            }
        }

        #[doc = concat!("`", $name, "` of `a` and `b`, in a new tensor.")]
        ///
        /// # Errors
        /// Shapes or types that do not fit, or no usable kernel.
        pub fn $plain<'a>(a: impl Into<View<'a>>, b: impl Into<View<'a>>) -> Result<Tensor> {
            let (a, b): (View<'_>, View<'_>) = (a.into(), b.into());
            // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
            let mut out = unsafe { Tensor::uninit(a.dtype(), a.shape(), a.device())? };
            $op { a, b, out: out.view_mut() }.run()?;
            Ok(out)
        }

        #[doc = concat!("`", $name, "` of `a` and `b`, into `out`.")]
        ///
        /// # Errors
        /// Shapes or types that do not fit, or no usable kernel.
        pub fn $into<'a>(
            a: impl Into<View<'a>>,
            b: impl Into<View<'a>>,
            out: impl Into<ViewMut<'a>>,
        ) -> Result<()> {
            $op { a: a.into(), b: b.into(), out: out.into() }.run()
        }

        impl $op<'_> {
            fn validate(&self) -> Result<Valid, CallError> {
                let inputs = [("a", self.a), ("b", self.b)];
                strided::check(Self::OP, DTypeSet::FLOAT, &inputs, self.out.as_view())
            }
        }

        unsafe fn reference(_: &Ctx, a: &$op<'_>) -> Result<(), RunError> {
            for [x, y, o] in offsets([a.a.layout(), a.b.layout(), a.out.layout()]) {
                // SAFETY: the offsets are those of elements.
                unsafe { put(&a.out, o, at(&a.a, x) $operator at(&a.b, y)) };
            }
            Ok(())
        }

        kernel!(unsafe {
            op: $op,
            backend: Backend::REFERENCE,
            variant: "",
            formats: Formats::same(DTypeSet::FLOAT),
            run: reference,
        });

        $crate::contract!($op);

        impl Contract for $op<'static> {
            type Params = Shaped;
            const OUTPUTS: &'static [usize] = &[2];

            fn cases() -> Vec<Case<Shaped>> {
                let of = |d| strided::shapes().into_iter().map(move |s| strided::case(d, d, s, 2));
                FLOATS.into_iter().flat_map(of).collect()
            }

            fn bench_cases() -> Vec<Case<Shaped>> {
                FLOATS.into_iter().flat_map(|d| strided::bench_cases(d, d, 2)).collect()
            }

            fn bind<'a>((shape, lie, to): &Shaped, tensors: &'a mut [Tensor]) -> Option<$op<'a>> {
                let [a, b, out] = tensors else { return None };
                let (a, b) = (strided::view(a, shape, *lie)?, strided::view(b, shape, *lie)?);
                Some($op { a, b, out: strided::view_mut(out, shape, *to)? })
            }

            fn tolerance(key: Key) -> Tolerance {
                strided::tolerance(key)
            }

            fn cost(a: &$op<'_>) -> Cost {
                let n = a.out.bytes() as u64;
                Cost { read: 2 * n, written: n, flops: a.out.layout().elements() as u64 }
            }
        }
    };
}
pub(super) use binary_op;
