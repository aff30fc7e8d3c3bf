// Eight consecutive elements of a weight row, of a plain type or of GGUF blocks (as ggml-common.h defines them), in f32;
// of blocks also as bytes. Blocks are 2-byte aligned, and read so.
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

// Eight elements of a block as signed bytes, four in a word: an element is byte * scale + offset. Rows of blocks say
// whether there are offsets (OFFSET), and how many elements share both (SHARED).
struct pk_eight {
    u32 words[2];
    float scale, offset;
};

// Each byte less `by`, for bytes below 128.
PK_DEV u32 pk_less(u32 bytes, u32 by) { return ((bytes | 0x80808080u) - 0x01010101u * by) ^ 0x80808080u; }
// Four bits, one in each byte.
PK_DEV u32 pk_spread(u32 bits) { return (bits & 15u) * 0x00204081u & 0x01010101u; }

// Nibbles of eight bytes from `p` on, low or high, with fifth bits from the lowest of `high`'s bytes.
PK_DEV void pk_nibbles(const u8* p, int shift, u32 high0, u32 high1, u32* words) {
    words[0] = (pk_word_at(p) >> shift & 0x0f0f0f0fu) | high0 << 4;
    words[1] = (pk_word_at(p + 4) >> shift & 0x0f0f0f0fu) | high1 << 4;
}

// What all rows of blocks have: eight elements in f32.
template <class R> struct pk_block_row {
    static PK_DEV_M void load8(const u8* row, i64 i, i64, float* out) {
        const pk_eight e = R::eight(row, i);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const float q = (float)(i8)(e.words[k / 4] >> 8 * (k & 3)) * e.scale;
            out[k] = R::OFFSET ? q + e.offset : q;
        }
    }
};

// Blocks of 32: elements 0..16 are low nibbles, 16..32 high ones. Those without an offset are around `LESS`.
#define PK_ROW_OF_32(W, SIZE, NIBBLES, LESS, HIGH)                                                                      \
    template <> struct pk_row<W> : pk_block_row<pk_row<W>> {                                                            \
        enum { BLOCK = 32, BYTES = SIZE, SHARED = 32, OFFSET = LESS == 0 };                                             \
        static PK_DEV_M pk_eight eight(const u8* row, i64 i) {                                                          \
            const u8* b = row + i / 32 * SIZE;                                                                          \
            const int g = (int)(i % 32) / 8;                                                                            \
            const u32 high = HIGH;                                                                                      \
            pk_eight e = {{0, 0}, pk_half_at(b), OFFSET ? pk_half_at(b + 2) : 0.f};                                     \
            pk_nibbles(b + NIBBLES + g % 2 * 8, g / 2 * 4, pk_spread(high), pk_spread(high >> 4), e.words);             \
            for (int j = 0; j < 2; ++j) e.words[j] = OFFSET ? e.words[j] : pk_less(e.words[j], LESS);                   \
            return e;                                                                                                   \
        }                                                                                                               \
    }
PK_ROW_OF_32(Q4_0, 18, 2, 8, 0);
PK_ROW_OF_32(Q4_1, 20, 4, 0, 0);
PK_ROW_OF_32(Q5_0, 22, 6, 16, b[2 + g]);
PK_ROW_OF_32(Q5_1, 24, 8, 0, b[4 + g]);

template <> struct pk_row<Q8_0> : pk_block_row<pk_row<Q8_0>> {
    enum { BLOCK = 32, BYTES = 34, SHARED = 32, OFFSET = 0 };
    static PK_DEV_M pk_eight eight(const u8* row, i64 i) {
        const u8* b = row + i / 32 * 34;
        return {{pk_word_at(b + 2 + i % 32), pk_word_at(b + 6 + i % 32)}, pk_half_at(b), 0.f};
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
template <bool FIVE> PK_DEV pk_eight pk_k_eight(const u8* b, int i) {
    const int group = i / 32, j = i % 32;
    float scale, min;
    pk_scale_and_min(b + 4, group, scale, min);
    pk_eight e = {{0, 0}, pk_half_at(b) * scale, -pk_half_at(b + 2) * min};
    u32 high[2] = {0, 0};
    if (FIVE)
        for (int k = 0; k < 2; ++k) high[k] = pk_word_at(b + 16 + j + 4 * k) >> group & 0x01010101u;
    pk_nibbles(b + (FIVE ? 48 : 16) + group / 2 * 32 + j, group % 2 * 4, high[0], high[1], e.words);
    return e;
}
template <> struct pk_row<Q4_K> : pk_block_row<pk_row<Q4_K>> {
    enum { BLOCK = 256, BYTES = 144, SHARED = 32, OFFSET = 1 };
    static PK_DEV_M pk_eight eight(const u8* row, i64 i) { return pk_k_eight<false>(row + i / 256 * 144, (int)(i % 256)); }
};
template <> struct pk_row<Q5_K> : pk_block_row<pk_row<Q5_K>> {
    enum { BLOCK = 256, BYTES = 176, SHARED = 32, OFFSET = 1 };
    static PK_DEV_M pk_eight eight(const u8* row, i64 i) { return pk_k_eight<true>(row + i / 256 * 176, (int)(i % 256)); }
};
// Halves of 128; in each, four runs of 32 share 64 low-nibble bytes and 32 high-bit bytes.
template <> struct pk_row<Q6_K> : pk_block_row<pk_row<Q6_K>> {
    enum { BLOCK = 256, BYTES = 210, SHARED = 16, OFFSET = 0 };
    static PK_DEV_M pk_eight eight(const u8* row, i64 i) {
        const u8* b = row + i / 256 * 210;
        const int at = (int)(i % 256), part = at / 128, run = at % 128 / 32, j = at % 32;
        const u8 *low = b + 64 * part + 32 * (run % 2) + j, *high = b + 128 + 32 * part + j;
        pk_eight e = {{0, 0}, pk_half_at(b + 208) * (float)(i8)b[192 + 8 * part + 2 * run + j / 16], 0.f};
        pk_nibbles(low, run / 2 * 4, pk_word_at(high) >> 2 * run & 0x03030303u, pk_word_at(high + 4) >> 2 * run & 0x03030303u, e.words);
        for (int k = 0; k < 2; ++k) e.words[k] = pk_less(e.words[k], 32);
        return e;
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
