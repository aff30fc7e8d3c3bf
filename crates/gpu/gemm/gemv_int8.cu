// out = x * weight^T + bias of GGUF blocks and few rows that were rounded to 8 bits: one warp a feature and PK_M rows,
// four products an instruction, eight weights a lane and turn.
#include "gguf.h"
#include "reduce.h"
#include "rounded.h"
typedef pk_row<PK_W> R;

PK_KERNEL(gemv_int8, 256, pk_call call, const u32* PK_RESTRICT q, const pk_rounded* PK_RESTRICT blocks, const u8* PK_RESTRICT weight, i64 w_stride, const void* PK_RESTRICT bias, void* PK_RESTRICT out, i64 out_stride, int type, i64 rows, i64 features, i64 k) {
    PK_ENTER(call);
    const int lane = threadIdx.x % PK_WARP;
    const i64 feature = (i64)blockIdx.x * (blockDim.x / PK_WARP) + threadIdx.x / PK_WARP, first = (i64)blockIdx.y * PK_M;
    if (feature >= features) return;
    const u8* w = weight + pk_row_bytes<PK_W>(feature * w_stride);
    float sums[PK_M];
#pragma unroll
    for (int m = 0; m < PK_M; ++m) sums[m] = 0.f;
    for (i64 i = 8 * lane; i < k; i += 8 * PK_WARP) {
        const pk_eight e = R::eight(w, i);
#pragma unroll
        for (int m = 0; m < PK_M; ++m)
            if (first + m < rows) {
                const i64 at = (first + m) * k + i;
                const pk_vec<u32, 2> x = *(const pk_vec<u32, 2>*)(q + at / 4);
                const pk_rounded block = blocks[at / 32];
                const int dot = pk_dot4((int)e.words[1], (int)x.v[1], pk_dot4((int)e.words[0], (int)x.v[0], 0));
                sums[m] += e.scale * block.scale * (float)dot;
                if (R::OFFSET && i % 32 == 0) sums[m] += e.offset * block.sum;
            }
    }
#pragma unroll
    for (int m = 0; m < PK_M; ++m) {
        const float sum = pk_warp_reduce<pk_sum>(sums[m]);
        if (lane == 0 && first + m < rows) pk_store_as(type, out, (first + m) * out_stride + feature, sum + (bias ? pk_load_as(type, bias, feature) : 0.f));
    }
}
