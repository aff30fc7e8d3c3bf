// out = (a * b^T) * scales_a * scales_b + bias of 8-bit matrices: tiles of 32 x 64 from 64 bytes of k at a time, two by four
// sums a thread; i8 in exact integer sums, four products an instruction, f8 in f32.
#include "types.h"
typedef pk_type<PK_T>::type T;
typedef pk_type<PK_Q>::type Q;
enum { ROWS = 32, FEATURES = 64, WORDS = 16, LINE = WORDS + 1, LOADS = (ROWS + FEATURES) * WORDS / 256 };

// Four elements as they are multiplied: each is unpacked once, and used in several sums.
template <class Q> struct pk_four;
template <> struct pk_four<i8> {
    typedef int sum_type;
    int v;
    PK_DEV_M void unpack(u32 word) { v = (int)word; }
    PK_DEV_M int times(const pk_four& b, int sum) const { return pk_dot4(v, b.v, sum); }
};
template <> struct pk_four<f8> {
    typedef float sum_type;
    float v[4];
    PK_DEV_M void unpack(u32 word) {
#pragma unroll
        for (int i = 0; i < 4; ++i) v[i] = pk_load(f8{(u8)(word >> 8 * i)});
    }
    PK_DEV_M float times(const pk_four& b, float sum) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum += v[i] * b.v[i];
        return sum;
    }
};

PK_DEV u32 load_word(const u8* row, i64 at, i64 k) {
    if (at + 4 <= k && (u64)(row + at) % 4 == 0) return *(const u32*)(row + at);
    u32 word = 0;
    for (int i = 0; i < 4; ++i)
        if (at + i < k) word |= (u32)row[at + i] << 8 * i;
    return word;
}

PK_KERNEL(scaled, 256, pk_call call, const u8* PK_RESTRICT a, i64 a_stride, const u8* PK_RESTRICT b, i64 b_stride, const float* PK_RESTRICT scales_a, const float* PK_RESTRICT scales_b, const T* PK_RESTRICT bias, T* PK_RESTRICT out, i64 out_stride, i64 rows, i64 features, i64 k) {
    PK_ENTER(call);
    PK_SHARED(u32, tile, [(ROWS + FEATURES) * LINE]);
    const i64 row0 = (i64)blockIdx.y * ROWS, feature0 = (i64)blockIdx.x * FEATURES;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    typename pk_four<Q>::sum_type sums[2][4];
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i / 4][i % 4] = 0;
    for (i64 k0 = 0; k0 < k; k0 += 4 * WORDS) {
#pragma unroll
        for (int turn = 0; turn < LOADS; ++turn) {
            const int line = (turn * 256 + threadIdx.x) / WORDS, word = threadIdx.x % WORDS;
            const bool is_a = line < ROWS;
            const i64 at = is_a ? row0 + line : feature0 + line - ROWS;
            const bool there = at < (is_a ? rows : features);
            tile[line * LINE + word] = there ? load_word(is_a ? a + at * a_stride : b + at * b_stride, k0 + 4 * word, k) : 0;
        }
        PK_SYNC();
#pragma unroll (PK_Q == 3 ? WORDS : 2)
        for (int i = 0; i < WORDS; ++i) {
            pk_four<Q> p[2], q[4];
#pragma unroll
            for (int m = 0; m < 2; ++m) p[m].unpack(tile[(ty + 16 * m) * LINE + i]);
#pragma unroll
            for (int j = 0; j < 4; ++j) q[j].unpack(tile[(ROWS + tx + 16 * j) * LINE + i]);
#pragma unroll
            for (int m = 0; m < 2; ++m)
#pragma unroll
                for (int j = 0; j < 4; ++j) sums[m][j] = p[m].times(q[j], sums[m][j]);
        }
        PK_SYNC();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const i64 r = row0 + ty + i / 4 * 16, f = feature0 + tx + i % 4 * 16;
        if (r < rows && f < features) out[r * out_stride + f] = pk_to<T>::of((float)sums[i / 4][i % 4] * scales_a[r] * scales_b[f] + (bias ? pk_load(bias[f]) : 0.f));
    }
}
