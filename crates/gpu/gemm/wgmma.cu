// out = x * weight^T + bias of f16 or bf16 matrices by Hopper's products of four warps: tiles of 128 x 128 from 64 of k at a
// time, four warps of 64 x 128 each; two tiles travel and one is multiplied while the next product is asked for.
#include "wgmma.h"
typedef pk_type<PK_T>::type T;
enum { TILE = 128, K = PK_TILE_COLUMNS, STAGES = 4, PIECES = K / 8, THREADS = 256 };

// 128 rows of 64 into shared memory, 16 bytes a thread and turn. What is not there is 0.
PK_DEV void load_tile(T* to, const T* from, i64 stride, i64 first, i64 count, i64 k0, i64 k, bool aligned) {
#pragma unroll
    for (int turn = 0; turn < TILE * PIECES / THREADS; ++turn) {
        const int at = turn * THREADS + threadIdx.x, line = at / PIECES, piece = at % PIECES;
        pk_bring8(to + pk_swizzled(line, piece), from + (first + line) * stride + k0 + piece * 8, first + line < count ? k - k0 - piece * 8 : 0, aligned);
    }
}

PK_KERNEL_OF(wgmma, THREADS, 1, pk_call call, const T* PK_RESTRICT x, i64 x_stride, const T* PK_RESTRICT weight, i64 w_stride, const T* PK_RESTRICT bias, T* PK_RESTRICT out, i64 out_stride, i64 rows, i64 features, i64 k) {
    PK_ENTER(call);
    PK_DYN_SHARED(T, memory); // for each stage a tile of x and one of the weight
    T* const tiles = pk_tiles(memory);
    const i64 row0 = (i64)blockIdx.y * TILE, feature0 = (i64)blockIdx.x * TILE, turns = (k + K - 1) / K;
    const int lane = threadIdx.x % 32, top = threadIdx.x / 128 * 64;
    const bool x_aligned = pk_rows_aligned(x, x_stride), w_aligned = pk_rows_aligned(weight, w_stride);
    pk_wgmma<T> sums;
#pragma unroll
    for (int i = 0; i < 64; ++i) sums.v[i] = 0.f;
    for (i64 t = 0; t < turns + STAGES - 2; ++t) {
        // Before the first product, two tiles are on their way.
        const i64 now = t - (STAGES - 2);
        if (now >= 0) {
            pk_async_wait<STAGES - 3>();
            pk_publish();
            PK_SYNC();
        }
        // Everyone waited for the product of the tile that lay here before.
        T* const next = tiles + t % STAGES * (2 * TILE * K);
        if (t < turns) {
            load_tile(next, x, x_stride, row0, rows, t * K, k, x_aligned);
            load_tile(next + TILE * K, weight, w_stride, feature0, features, t * K, k, w_aligned);
        }
        pk_async_commit();
        if (now < 0) continue;
        const T *a = tiles + now % STAGES * (2 * TILE * K) + top * K, *b = tiles + now % STAGES * (2 * TILE * K) + TILE * K;
        sums.begin();
#pragma unroll
        for (int i = 0; i < K; i += 16) sums.times(pk_matrix_at(a + i), pk_matrix_at(b + i));
        sums.commit();
        sums.template wait<1>();
    }
    sums.template wait<0>();
    pk_async_wait<0>();
#pragma unroll
    for (int j = 0; j < 64; ++j) {
        const i64 r = row0 + top + threadIdx.x % 128 / 32 * 16 + pk_mma_row(lane, j % 4), f = feature0 + j / 4 * 8 + pk_mma_column(lane, j % 4);
        if (r < rows && f < features) out[r * out_stride + f] = pk_to<T>::of(sums.v[j] + (bias ? pk_load(bias[f]) : 0.f));
    }
}
