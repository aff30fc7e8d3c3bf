// out = x * weight^T + bias of f16 or bf16 matrices on tensor cores, sums in f32: tiles of 64 x 64 from 32 of k at a
// time, four warps of 32 x 32 each; the next tiles travel while these are multiplied.
#include "mma.h"
typedef pk_type<PK_T>::type T;
enum { TILE = 64, K = 32, ROW = K + 8, CHUNK = 8 };

// 64 rows of 32 into shared memory, 16 bytes a thread and turn. What is not there is 0.
PK_DEV void load_tile(T* to, const T* from, i64 stride, i64 first, i64 count, i64 k0, i64 k, bool aligned) {
#pragma unroll
    for (int turn = 0; turn < TILE * K / CHUNK / 128; ++turn) {
        const int piece = turn * 128 + threadIdx.x, line = piece / (K / CHUNK), column = piece % (K / CHUNK) * CHUNK;
        pk_bring8(to + line * ROW + column, from + (first + line) * stride + k0 + column, first + line < count ? k - k0 - column : 0, aligned);
    }
}

PK_KERNEL(mma, 128, pk_call call, const T* PK_RESTRICT x, i64 x_stride, const T* PK_RESTRICT weight, i64 w_stride, const T* PK_RESTRICT bias, T* PK_RESTRICT out, i64 out_stride, i64 rows, i64 features, i64 k) {
    PK_ENTER(call);
    PK_SHARED(T, a, [2][TILE * ROW]);
    PK_SHARED(T, b, [2][TILE * ROW]);
    const i64 row0 = (i64)blockIdx.y * TILE, feature0 = (i64)blockIdx.x * TILE;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, top = warp / 2 * 32, left = warp % 2 * 32;
    const bool x_aligned = pk_rows_aligned(x, x_stride), w_aligned = pk_rows_aligned(weight, w_stride);
    float sums[2][4][4];
#pragma unroll
    for (int i = 0; i < 32; ++i) sums[i / 16][i / 4 % 4][i % 4] = 0.f;
    if (k > 0) {
        load_tile(a[0], x, x_stride, row0, rows, 0, k, x_aligned);
        load_tile(b[0], weight, w_stride, feature0, features, 0, k, w_aligned);
    }
    pk_async_commit();
    int half = 0;
    for (i64 k0 = 0; k0 < k; k0 += K, half ^= 1) {
        if (k0 + K < k) {
            load_tile(a[half ^ 1], x, x_stride, row0, rows, k0 + K, k, x_aligned);
            load_tile(b[half ^ 1], weight, w_stride, feature0, features, k0 + K, k, w_aligned);
        }
        pk_async_commit();
        pk_async_wait<1>();
        PK_SYNC();
#pragma unroll
        for (int i = 0; i < K; i += 16) {
            u32 p[2][4], q[4][2];
#pragma unroll
            for (int m = 0; m < 2; ++m) pk_mma_a(p[m], a[half] + (top + m * 16) * ROW + i, ROW);
#pragma unroll
            for (int n = 0; n < 4; ++n) pk_mma_b(q[n], b[half] + (left + n * 8) * ROW + i, ROW);
#pragma unroll
            for (int m = 0; m < 2; ++m)
#pragma unroll
                for (int n = 0; n < 4; ++n) pk_mma<T>(sums[m][n], p[m], q[n]);
        }
        PK_SYNC();
    }
    pk_async_wait<0>();
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const i64 r = row0 + top + m * 16 + pk_mma_row(lane, j), f = feature0 + left + n * 8 + pk_mma_column(lane, j);
                if (r < rows && f < features) out[r * out_stride + f] = pk_to<T>::of(sums[m][n][j] + (bias ? pk_load(bias[f]) : 0.f));
            }
}
