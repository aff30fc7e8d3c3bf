//! `embeddings.embedding`: row i of the output is row `ids[i]` of the table, also of a quantised one.

use crate::args::Arg;
use crate::data::{blocks, ints, unwritten};
use crate::element::{below, index, put};
use crate::quantization::blocks::element;
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Rows of a table by token id, dequantised where the table is.
    ///
    /// A row's exact values, rounded once to the output's type. An id outside the table gives a row of zeros
    /// and the error `OutOfRange`.
    pub struct Embedding = "embeddings.embedding" {
        /// `[tokens]`, i32, i64 or u32.
        reads ids,
        /// `[vocabulary, hidden]`, a float or GGUF type; rows may have a stride.
        reads table,
        /// `[tokens, hidden]`, f32, f16 or bf16; rows may have a stride.
        writes out,
    }
}

/// Rows of `table` by id as `dtype`, in a new tensor.
///
/// # Errors
/// An id outside the table, shapes or types that do not fit, or no usable kernel.
pub fn embedding<'a>(ids: impl Into<View<'a>>, table: impl Into<View<'a>>, dtype: DType) -> Result<Tensor> {
    let (ids, table) = (ids.into(), table.into());
    let shape = [ids.layout().elements(), table.shape().last().copied().unwrap_or(0)];
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(dtype, &shape, ids.device())? };
    Embedding { ids, table, out: out.view_mut() }.run()?;
    Ok(out)
}

/// Rows of `table` by id, into `out`.
///
/// # Errors
/// An id outside the table, shapes or types that do not fit, or no usable kernel.
pub fn embedding_into<'a>(
    ids: impl Into<View<'a>>,
    table: impl Into<View<'a>>,
    out: impl Into<ViewMut<'a>>,
) -> Result<()> {
    Embedding { ids: ids.into(), table: table.into(), out: out.into() }.run()
}

impl Embedding<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let arg = |name, view| Arg::new(Self::OP, name, view);
        let tokens = self.ids.layout().elements();
        arg("ids", self.ids).indices(tokens)?;
        let table = arg("table", self.table).dtype(DTypeSet::FLOAT.union(DTypeSet::GGUF))?.rank(2)?.rows()?;
        let out = arg("out", self.out.as_view()).dtype(DTypeSet::FLOAT)?.shape(&[tokens, table.cols])?;
        out.output()?.rows()?;
        let key = Key::of(self.out.dtype()).with_weight(self.table.dtype());
        Ok(Valid { key, empty: tokens == 0 || table.cols == 0 })
    }
}

unsafe fn reference(ctx: &Ctx, a: &Embedding<'_>) -> Result<(), RunError> {
    let (Some(t), Some(o)) = (a.table.rows(), a.out.rows()) else { return Ok(()) };
    for r in 0..o.rows {
        // SAFETY: r is below the number of ids; a row is read only where the id is inside the table.
        unsafe {
            let id = index(&a.ids, r);
            let row = below(id, t.rows);
            if row.is_none() {
                ctx.out_of_range(id, t.rows);
            }
            for i in 0..t.cols {
                put(&a.out, r * o.stride + i, row.map_or(0.0, |row| element(&a.table, t.stride, row, i)));
            }
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: Embedding,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::GGUF)),
    run: reference,
});

crate::contract!(Embedding);

impl Contract for Embedding<'static> {
    type Params = ();
    const OUTPUTS: &'static [usize] = &[2];

    fn cases() -> Vec<Case<()>> {
        let mut cases = Vec::new();
        for table in DTypeSet::FLOAT.union(DTypeSet::GGUF).iter() {
            for (out, ids) in FLOATS.into_iter().zip([DType::I32, DType::I64, DType::U32]) {
                let hidden = if table.is_quantised() { 3 * table.block_len() } else { 37 };
                cases.push(case(table, out, ids, 7, hidden));
                cases.push(case(table, out, ids, 0, hidden));
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<()>> {
        [DType::F32, DType::BF16, DType::Q8_0, DType::Q4K]
            .map(|t| case(t, DType::F32, DType::I32, 512, 4096))
            .into()
    }

    fn bind<'a>(_: &(), tensors: &'a mut [Tensor]) -> Option<Embedding<'a>> {
        let [ids, table, out] = tensors else { return None };
        Some(Embedding { ids: ids.view(), table: table.view(), out: out.view_mut() })
    }

    fn tolerance(key: Key) -> Tolerance {
        if key.dtype == DType::F32 {
            Tolerance::EXACT
        } else {
            Tolerance::rounded(key, 1.01, 0.0).at_least_subnormal(key)
        }
    }

    fn cost(a: &Embedding<'_>) -> Cost {
        let (tokens, dtype) = (a.ids.layout().elements(), a.table.dtype());
        let row = a.table.dim(1) / dtype.block_len() * dtype.block_bytes();
        Cost { read: (tokens * row + a.ids.bytes()) as u64, written: a.out.bytes() as u64, flops: 0 }
    }
}

fn case(table: DType, out: DType, ids: DType, tokens: usize, hidden: usize) -> Case<()> {
    let vocabulary = 29;
    let mut rng = crate::data::Rng::new(5);
    let values: Vec<i64> = (0..tokens).map(|_| rng.below(vocabulary) as i64).collect();
    let tensors = vec![
        ints(ids, &values, &[tokens]),
        blocks(1, table, &[vocabulary, hidden]),
        unwritten(out, &[tokens, hidden]),
    ];
    Case { name: format!("{table} to {out}, {ids} ids, [{tokens}, {hidden}]"), tensors, params: () }
}
