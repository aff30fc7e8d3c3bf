//! `attention.decode` and `attention.prefill`: how rows and tokens are cut into blocks.

use crate::gemm::product::has_tensor_cores;
use crate::op::gpu_op;
use crate::shape::{code, index_type, too_large};
use crate::{Gpu, Grid, Jit, Params, Runtime, params};
use kernels_core::{DType, Key, Reason, View};
use kernels_ops::attention::{Decode, Prefill};

static DECODE: Jit = Jit::new("decode", include_str!("decode.cu"), &["T", "C", "DIM", "G"]);
static COMBINE: Jit = Jit::new("combine", include_str!("combine.cu"), &["T"]);
static PREFILL: Jit = Jit::new("prefill", include_str!("prefill.cu"), &["T", "C", "DIM"]);
static PREFILL_MMA: Jit = Jit::new("prefill_mma", include_str!("prefill_mma.cu"), &["T", "DIM"]);
/// What they are compiled from.
pub static SOURCES: &[&Jit] = &[&DECODE, &COMBINE, &PREFILL, &PREFILL_MMA];

/// The largest head_dim whose queries fit into shared memory.
const LARGEST_DIM: u16 = 512;

/// Whether the kernels take a head_dim.
///
/// # Errors
/// It is too large.
pub fn gate(key: &Key) -> Result<(), Reason> {
    match key.fact {
        1..=LARGEST_DIM => Ok(()),
        dim => Err(Reason::Shape { detail: format!("takes head_dim 1 to {LARGEST_DIM}, not {dim}") }),
    }
}

/// `pk_cache` of `attention.h`.
fn cache(view: &View<'_>) -> [usize; 3] {
    [view.stride(0), view.stride(1), view.stride(2)]
}

/// `pk_options` of `attention.h`: three floats and two integers.
struct Options([f32; 3], [i32; 2]);

impl crate::Param for Options {
    fn put(&self, params: &mut Params) {
        let Options([scale, cap, v_scale], [window, causal]) = *self;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        params.word(pair(scale.to_bits(), cap.to_bits()));
        params.word(pair(v_scale.to_bits(), window as u32));
        params.word(causal as u32 as u64);
    }
}

/// Query heads that share a block, and how many blocks that makes for each key-value head.
fn packs(a: &Decode<'_>) -> (usize, usize) {
    let group = a.q.dim(1) / a.key_cache.dim(2).max(1);
    let at_once = group.next_power_of_two().min(8);
    (at_once, group.div_ceil(at_once))
}

/// Tokens that a part has at least: below, joining costs more than it brings.
const LEAST_PART: usize = 256;

/// Into how many parts each sequence is cut: about two blocks for each multiprocessor. The lengths are on the device, so
/// this goes by what the block table has room for.
fn splits(a: &Decode<'_>) -> usize {
    let room = a.tensors().room();
    let blocks = (a.q.dim(0) * a.key_cache.dim(2) * packs(a).1).max(1);
    let wanted = (2 * a.q.device().platform().cores as usize).div_ceil(blocks);
    wanted.min(room.div_ceil(LEAST_PART)).clamp(1, 128)
}

/// Memory for the parts of decode: sums, largest score and weight of each.
pub fn parts(a: &Decode<'_>, _: usize) -> usize {
    a.q.dim(0) * a.q.dim(1) * splits(a) * (a.q.dim(2) + 2) * size_of::<f32>()
}

fn window(window: usize) -> i32 {
    // One that is larger than any sequence hides nothing.
    i32::try_from(window).unwrap_or(0)
}

gpu_op! { decode for Decode |gpu, a, ctx| {
    let ((at_once, packs), splits) = (packs(a), splits(a));
    let (batch, heads, dim) = (a.q.dim(0), a.q.dim(1), a.q.dim(2));
    let room = a.tensors().room();
    let grid = Grid::of(splits, 128).by(a.key_cache.dim(2) * packs, batch);
    let grid = grid.ok_or_else(|| too_large(&gpu, "sequences or heads"))?;
    let options = [code(a.q.dtype()), code(a.key_cache.dtype()), dim as u16, at_once as u16];
    let (parts, _) = ctx.workspace();
    let scores = Options([a.sm_scale * a.k_scale, a.logit_cap, a.v_scale], [window(a.window), 0]);
    let params = params![
        a.q, a.q.stride(0), a.q.stride(1),
        a.key_cache, cache(&a.key_cache), a.value_cache, cache(&a.value_cache),
        a.block_table, index_type(&a.block_table), a.block_table.stride(0),
        a.seq_lens, index_type(&a.seq_lens),
        a.key_cache.dim(0), a.key_cache.dim(1), room, heads, a.key_cache.dim(2), scores, parts
    ];
    gpu.launch(&DECODE, options, grid, &params)?;
    let warps = gpu.warps(128);
    let lse_stride = a.lse.as_ref().map_or(0, |l| l.stride(0));
    let params = params![
        parts, splits, a.sinks, a.out, a.out.stride(0), a.out.stride(1), a.lse, lse_stride,
        batch, heads, dim, a.v_scale
    ];
    gpu.launch(&COMBINE, [code(a.q.dtype()), 0, 0, 0], Grid::of((batch * heads).div_ceil(warps), 128), &params)
} }

/// Pairs of a row and a head in one block of `prefill_mma.cu`.
const MMA_PAIRS: usize = 64;
/// The largest head_dim whose queries `prefill_mma.cu` keeps in registers, with turns of 32 tokens; beyond, the queries take
/// shared memory, and turns are of 16.
const IN_REGISTERS: usize = 128;
/// The largest head_dim whose sums fit into a thread's registers.
const MMA_DIM: usize = 256;

/// Whether tensor cores can take a call: 16-bit queries, keys and values of one type, and whole tiles of head_dim.
fn fits_mma<R: Runtime>(gpu: &Gpu<'_, R>, a: &Prefill<'_>) -> bool {
    let (dtype, dim) = (a.q.dtype(), a.q.dim(2));
    has_tensor_cores(gpu)
        && dtype == a.key_cache.dtype()
        && dtype != DType::F32
        && dim.is_multiple_of(16)
        && dim <= MMA_DIM
}

gpu_op! { prefill for Prefill |gpu, a| {
    let (rows, heads, kv_heads, batch) = (a.q.dim(0), a.q.dim(1), a.key_cache.dim(2), a.seq_lens.dim(0));
    let room = a.tensors().room();
    // Where sequences end is on the device: one block more for each covers every cut.
    let (mma, dim) = (fits_mma(&gpu, a), a.q.dim(2));
    // In `prefill.cu` eight threads a pair, and as many pairs as shared memory has room for.
    let (pairs, threads) = match (mma, dim) {
        (true, _) => (MMA_PAIRS, 128),
        (false, ..=256) => (16, 128),
        (false, _) => (8, 64),
    };
    let blocks = (rows * (heads / kv_heads)).div_ceil(pairs) + batch;
    let grid = Grid::of(blocks, threads).by(kv_heads, 1).ok_or_else(|| too_large(&gpu, "heads"))?;
    let scores = Options(
        [a.sm_scale * a.k_scale, a.logit_cap, a.v_scale],
        [window(a.window), a.is_causal.into()],
    );
    let params = params![
        a.q, a.q.stride(0), a.q.stride(1),
        a.key_cache, cache(&a.key_cache), a.value_cache, cache(&a.value_cache),
        a.block_table, index_type(&a.block_table), a.block_table.stride(0),
        a.seq_lens, index_type(&a.seq_lens), a.qo_indptr, index_type(&a.qo_indptr),
        a.mask, a.mask_indptr, a.mask_indptr.as_ref().map_or(0, index_type), a.mask.as_ref().map_or(0, |m| m.dim(0)),
        a.sinks, a.out, a.out.stride(0), a.out.stride(1), a.lse, a.lse.as_ref().map_or(0, |l| l.stride(0)),
        a.key_cache.dim(0), a.key_cache.dim(1), room, rows, batch, heads, kv_heads, scores
    ];
    if !mma {
        let options = [code(a.q.dtype()), code(a.key_cache.dtype()), dim as u16, 0];
        return gpu.launch(&PREFILL, options, grid, &params);
    }
    // Two turns of keys and values, and the queries where registers cannot hold them.
    let lines = if dim <= IN_REGISTERS { 4 * 32 } else { 4 * 16 + MMA_PAIRS };
    let grid = Grid { shared: (lines * (dim + 8) * a.q.dtype().block_bytes()) as u32, ..grid };
    gpu.launch(&PREFILL_MMA, [code(a.q.dtype()), dim as u16, 0, 0], grid, &params)
} }
