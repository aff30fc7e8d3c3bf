// out = x * weight^T + bias for many rows, in f32: tiles of 64 x 64 from 16 of k at a time, four by four sums a thread.
// Weights are unpacked on their way into shared memory, once for 64 rows.
#include "gguf.h"
typedef pk_type<PK_T>::type T;
typedef pk_row<PK_W> R;
enum { TILE = 64, K = 16, PAD = 4 };

PK_KERNEL(tiles, 256, pk_call call, const T* PK_RESTRICT x, i64 x_stride, const u8* PK_RESTRICT weight, i64 w_stride, const T* PK_RESTRICT bias, T* PK_RESTRICT out, i64 out_stride, i64 rows, i64 features, i64 k) {
    PK_ENTER(call);
    PK_SHARED(float, a, [K][TILE + PAD]);
    PK_SHARED(float, b, [K][TILE + PAD]);
    const i64 row0 = (i64)blockIdx.y * TILE, feature0 = (i64)blockIdx.x * TILE;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    // The first half of the block loads weights, the second x: eight of a row each.
    const bool loads_x = threadIdx.x >= 128;
    const int line = threadIdx.x % 128 / 2, column = threadIdx.x % 2 * 8;
    const i64 at = (loads_x ? row0 : feature0) + line;
    const bool there = at < (loads_x ? rows : features);
    const T* x_row = x + (there && loads_x ? at * x_stride : 0);
    const u8* w_row = weight + (there && !loads_x ? pk_row_bytes<PK_W>(at * w_stride) : 0);
    float sums[4][4];
#pragma unroll
    for (int i = 0; i < 16; ++i) sums[i / 4][i % 4] = 0.f;
    for (i64 k0 = 0; k0 < k; k0 += K) {
        float v[8] = {0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f};
        if (there) {
            if (loads_x) pk_plain8(x_row, k0 + column, k, v);
            else R::load8(w_row, k0 + column, k, v);
        }
#pragma unroll
        for (int j = 0; j < 8; ++j) (loads_x ? a : b)[column + j][line] = v[j];
        PK_SYNC();
#pragma unroll
        for (int i = 0; i < K; ++i) {
            float p[4], q[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                p[j] = a[i][ty * 4 + j];
                q[j] = b[i][tx * 4 + j];
            }
#pragma unroll
            for (int j = 0; j < 16; ++j) sums[j / 4][j % 4] += p[j / 4] * q[j % 4];
        }
        PK_SYNC();
    }
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        const i64 r = row0 + ty * 4 + j / 4, f = feature0 + tx * 4 + j % 4;
        if (r < rows && f < features) out[r * out_stride + f] = pk_to<T>::of(sums[j / 4][j % 4] + (bias ? pk_load(bias[f]) : 0.f));
    }
}
