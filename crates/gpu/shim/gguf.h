// Eight consecutive elements of a weight row, of a plain type or of GGUF blocks (as ggml-common.h defines them), in f32.
// Blocks are 2-byte aligned, and read so.
#ifndef PK_GGUF_H
#define PK_GGUF_H
#include "types.h"

PK_DEV float pk_half_at(const u8* p) { return pk_load(f16{*(const u16*)p}); }

// Four bytes in a word, from a 2-byte aligned place.
PK_DEV u32 pk_word_at(const u8* p) { return (u32)((const u16*)p)[0] | (u32)((const u16*)p)[1] << 16; }

template <int W> struct pk_row;

// `i` is a multiple of 8. Elements from `cols` on are 0.
template <class T> PK_DEV void pk_plain8(const T* row, i64 i, i64 cols, float* out) {
    enum { N = pk_lanes<T>::N < 8 ? pk_lanes<T>::N : 8 };
    typedef pk_vec<T, N> V;
    if (i + 8 <= cols && (u64)(row + i) % sizeof(V) == 0) {
#pragma unroll
        for (int j = 0; j < 8; j += N) {
            const V v = *(const V*)(row + i + j);
#pragma unroll
            for (int k = 0; k < N; ++k) out[j + k] = pk_load(v.v[k]);
        }
    } else {
#pragma unroll
        for (int j = 0; j < 8; ++j) out[j] = i + j < cols ? pk_load(row[i + j]) : 0.f;
    }
}
#define PK_PLAIN_ROW(W)                                                                                                 \
    template <> struct pk_row<W> {                                                                                      \
        enum { BLOCK = 1, BYTES = sizeof(pk_type<W>::type) };                                                           \
        static PK_DEV_M void load8(const u8* row, i64 i, i64 cols, float* out) { pk_plain8((const pk_type<W>::type*)row, i, cols, out); } \
    }
PK_PLAIN_ROW(F32);
PK_PLAIN_ROW(F16);
PK_PLAIN_ROW(BF16);

// Nibbles of eight bytes from `p` on, low or high, plus a fifth bit each from `high`.
PK_DEV void pk_nibbles(const u8* p, int shift, u32 high, float scale, float offset, float* out) {
    const u32 a = pk_word_at(p) >> shift, b = pk_word_at(p + 4) >> shift;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        const u32 q = ((k < 4 ? a : b) >> 8 * (k & 3) & 15u) | (high >> k & 1u) << 4;
        out[k] = (float)q * scale + offset;
    }
}

// Blocks of 32: elements 0..16 are low nibbles, 16..32 high ones.
#define PK_ROW_OF_32(W, SIZE, NIBBLES, BODY)                                                                            \
    template <> struct pk_row<W> {                                                                                      \
        enum { BLOCK = 32, BYTES = SIZE };                                                                              \
        static PK_DEV_M void load8(const u8* row, i64 i, i64, float* out) {                                             \
            const u8* b = row + i / 32 * SIZE;                                                                          \
            const int g = (int)(i % 32) / 8;                                                                            \
            const float d = pk_half_at(b);                                                                              \
            BODY pk_nibbles(b + NIBBLES + g % 2 * 8, g / 2 * 4, high, d, offset, out);                                  \
        }                                                                                                               \
    }
PK_ROW_OF_32(Q4_0, 18, 2, const u32 high = 0; const float offset = -8.f * d;);
PK_ROW_OF_32(Q4_1, 20, 4, const u32 high = 0; const float offset = pk_half_at(b + 2););
PK_ROW_OF_32(Q5_0, 22, 6, const u32 high = b[2 + g]; const float offset = -16.f * d;);
PK_ROW_OF_32(Q5_1, 24, 8, const u32 high = b[4 + g]; const float offset = pk_half_at(b + 2););

template <> struct pk_row<Q8_0> {
    enum { BLOCK = 32, BYTES = 34 };
    static PK_DEV_M void load8(const u8* row, i64 i, i64, float* out) {
        const u8* b = row + i / 32 * 34;
        const float d = pk_half_at(b);
        const u32 lo = pk_word_at(b + 2 + i % 32), hi = pk_word_at(b + 6 + i % 32);
#pragma unroll
        for (int k = 0; k < 8; ++k) out[k] = (float)(i8)((k < 4 ? lo : hi) >> 8 * (k & 3)) * d;
    }
};

// 6-bit scale and minimum of group j of a Q4_K or Q5_K block.
PK_DEV void pk_scale_and_min(const u8* s, int j, float& scale, float& min) {
    if (j < 4) {
        scale = (float)(s[j] & 63);
        min = (float)(s[j + 4] & 63);
    } else {
        scale = (float)((s[j + 4] & 15) | s[j - 4] >> 6 << 4);
        min = (float)(s[j + 4] >> 4 | s[j] >> 6 << 4);
    }
}
// Blocks of 256 in groups of 32; each two groups share 32 bytes, the even one in low nibbles.
template <bool FIVE> PK_DEV void pk_k_row(const u8* b, int i, float* out) {
    const int group = i / 32, j = i % 32;
    float scale, min;
    pk_scale_and_min(b + 4, group, scale, min);
    u32 high = 0;
    if (FIVE) {
        const u32 lo = pk_word_at(b + 16 + j), hi = pk_word_at(b + 20 + j);
#pragma unroll
        for (int k = 0; k < 8; ++k) high |= ((k < 4 ? lo : hi) >> (8 * (k & 3) + group) & 1u) << k;
    }
    pk_nibbles(b + (FIVE ? 48 : 16) + group / 2 * 32 + j, group % 2 * 4, high, pk_half_at(b) * scale, -pk_half_at(b + 2) * min, out);
}
template <> struct pk_row<Q4_K> {
    enum { BLOCK = 256, BYTES = 144 };
    static PK_DEV_M void load8(const u8* row, i64 i, i64, float* out) { pk_k_row<false>(row + i / 256 * 144, (int)(i % 256), out); }
};
template <> struct pk_row<Q5_K> {
    enum { BLOCK = 256, BYTES = 176 };
    static PK_DEV_M void load8(const u8* row, i64 i, i64, float* out) { pk_k_row<true>(row + i / 256 * 176, (int)(i % 256), out); }
};
// Halves of 128; in each, four runs of 32 share 64 low-nibble bytes and 32 high-bit bytes.
template <> struct pk_row<Q6_K> {
    enum { BLOCK = 256, BYTES = 210 };
    static PK_DEV_M void load8(const u8* row, i64 i, i64, float* out) {
        const u8* b = row + i / 256 * 210;
        const int at = (int)(i % 256), part = at / 128, run = at % 128 / 32, j = at % 32;
        const u8 *low = b + 64 * part + 32 * (run % 2) + j, *high = b + 128 + 32 * part + j;
        const u32 la = pk_word_at(low) >> run / 2 * 4, lb = pk_word_at(low + 4) >> run / 2 * 4;
        const u32 ha = pk_word_at(high) >> 2 * run, hb = pk_word_at(high + 4) >> 2 * run;
        const float d = pk_half_at(b + 208) * (float)(i8)b[192 + 8 * part + 2 * run + j / 16];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const u32 q = ((k < 4 ? la : lb) >> 8 * (k & 3) & 15u) | ((k < 4 ? ha : hb) >> 8 * (k & 3) & 3u) << 4;
            out[k] = ((float)q - 32.f) * d;
        }
    }
};

// The byte offset of a row of `stride` elements.
template <int W> PK_DEV i64 pk_row_bytes(i64 stride) { return stride / pk_row<W>::BLOCK * pk_row<W>::BYTES; }

// Stores up to eight elements.
template <class T> PK_DEV void pk_store8(T* row, i64 i, i64 cols, const float* v) {
    enum { N = pk_lanes<T>::N < 8 ? pk_lanes<T>::N : 8 };
    typedef pk_vec<T, N> V;
    if (i + 8 <= cols && (u64)(row + i) % sizeof(V) == 0) {
#pragma unroll
        for (int j = 0; j < 8; j += N) {
            V o;
#pragma unroll
            for (int k = 0; k < N; ++k) o.v[k] = pk_to<T>::of(v[j + k]);
            *(V*)(row + i + j) = o;
        }
    } else {
#pragma unroll
        for (int j = 0; j < 8; ++j)
            if (i + j < cols) row[i + j] = pk_to<T>::of(v[j]);
    }
}
#endif
