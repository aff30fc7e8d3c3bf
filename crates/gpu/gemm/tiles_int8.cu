// out = x * weight^T + bias of GGUF blocks and many rows that were rounded to 8 bits: tiles of 64 x 64 from one block of 32
// at a time, four by four sums a thread, four products an instruction. Weights are unpacked once for 64 rows.
#include "gguf.h"
#include "rounded.h"
typedef pk_row<PK_W> R;
enum { TILE = 64, WORDS = 8, LINE = WORDS + 1, RUNS = 32 / R::SHARED };

PK_KERNEL(tiles_int8, 256, pk_call call, const u32* PK_RESTRICT q, const pk_rounded* PK_RESTRICT blocks, const u8* PK_RESTRICT weight, i64 w_stride, const void* PK_RESTRICT bias, void* PK_RESTRICT out, i64 out_stride, int type, i64 rows, i64 features, i64 k) {
    PK_ENTER(call);
    PK_SHARED(u32, a, [TILE * LINE]);
    PK_SHARED(u32, b, [TILE * LINE]);
    PK_SHARED(pk_rounded, a_blocks, [TILE]);
    PK_SHARED(float, b_scales, [TILE * RUNS]);
    PK_SHARED(float, b_offsets, [TILE]);
    const i64 row0 = (i64)blockIdx.y * TILE, feature0 = (i64)blockIdx.x * TILE;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    // Each thread brings eight of a row of both.
    const int line = threadIdx.x / 4, part = threadIdx.x % 4;
    const bool has_row = row0 + line < rows, has_feature = feature0 + line < features;
    const u8* w = weight + pk_row_bytes<PK_W>(has_feature ? (feature0 + line) * w_stride : 0);
    float sums[4][4];
#pragma unroll
    for (int i = 0; i < 16; ++i) sums[i / 4][i % 4] = 0.f;
    for (i64 k0 = 0; k0 < k; k0 += 32) {
        pk_vec<u32, 2> x = {{0, 0}};
        pk_rounded block = {0.f, 0.f};
        pk_eight e = {{0, 0}, 0.f, 0.f};
        if (has_row) {
            x = *(const pk_vec<u32, 2>*)(q + ((row0 + line) * k + k0) / 4 + 2 * part);
            block = blocks[((row0 + line) * k + k0) / 32];
        }
        if (has_feature) e = R::eight(w, k0 + 8 * part);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            a[line * LINE + 2 * part + j] = x.v[j];
            b[line * LINE + 2 * part + j] = e.words[j];
        }
        if (8 * part % R::SHARED == 0) b_scales[line * RUNS + 8 * part / R::SHARED] = e.scale;
        if (part == 0) {
            a_blocks[line] = block;
            b_offsets[line] = e.offset;
        }
        PK_SYNC();
#pragma unroll
        for (int run = 0; run < RUNS; ++run) {
            int dots[4][4];
#pragma unroll
            for (int i = 0; i < 16; ++i) dots[i / 4][i % 4] = 0;
#pragma unroll
            for (int i = run * WORDS / RUNS; i < (run + 1) * WORDS / RUNS; ++i) {
                int p[4], r[4];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    p[j] = (int)a[(ty + 16 * j) * LINE + i];
                    r[j] = (int)b[(tx + 16 * j) * LINE + i];
                }
#pragma unroll
                for (int j = 0; j < 16; ++j) dots[j / 4][j % 4] = pk_dot4(p[j / 4], r[j % 4], dots[j / 4][j % 4]);
            }
#pragma unroll
            for (int j = 0; j < 16; ++j) sums[j / 4][j % 4] += a_blocks[ty + j / 4 * 16].scale * b_scales[(tx + j % 4 * 16) * RUNS + run] * (float)dots[j / 4][j % 4];
        }
        if (R::OFFSET)
#pragma unroll
            for (int j = 0; j < 16; ++j) sums[j / 4][j % 4] += a_blocks[ty + j / 4 * 16].sum * b_offsets[tx + j % 4 * 16];
        PK_SYNC();
    }
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        const i64 r = row0 + ty + j / 4 * 16, f = feature0 + tx + j % 4 * 16;
        if (r < rows && f < features) pk_store_as(type, out, r * out_stride + f, sums[j / 4][j % 4] + (bias ? pk_load_as(type, bias, f) : 0.f));
    }
}
