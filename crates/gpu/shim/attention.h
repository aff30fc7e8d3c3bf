// What decode and prefill share: a paged cache, scores, and the end of a row.
#ifndef PK_ATTENTION_H
#define PK_ATTENTION_H
#include "types.h"
#include "reduce.h"

// Where a token's head lies in a cache `[blocks, block_size, kv_heads, dim]`, strides in elements.
struct pk_cache {
    i64 block, token, head;
};

// How scores are made and which tokens a row sees.
struct pk_options {
    float scale, cap, v_scale;
    int window, causal;
};

// Eight elements of a head from `i` on, 0 beyond `dim`.
template <int DIM, class C> PK_DEV void pk_head8(const C* head, int i, float* out) {
    enum { N = pk_lanes<C>::N < 8 ? pk_lanes<C>::N : 8 };
    typedef pk_vec<C, N> V;
    if (DIM % 8 == 0 && (u64)(head + i) % sizeof(V) == 0) {
        if (i < DIM)
#pragma unroll
            for (int j = 0; j < 8; j += N) {
                const V v = *(const V*)(head + i + j);
#pragma unroll
                for (int k = 0; k < N; ++k) out[j + k] = pk_load(v.v[k]);
            }
        else
            for (int j = 0; j < 8; ++j) out[j] = 0.f;
    } else {
#pragma unroll
        for (int j = 0; j < 8; ++j) out[j] = i + j < DIM ? pk_load(head[i + j]) : 0.f;
    }
}

// A token's block; -1 for one that is not there, which is reported.
PK_DEV i64 pk_block(const pk_call& call, const void* table, int type, i64 at, i64 blocks) {
    const i64 b = pk_index(table, type, at);
    if (b >= 0 && b < blocks) return b;
    pk_fault(call, b, blocks);
    return -1;
}

// A sequence's length; 0 for one that its blocks have no room for, which is reported.
PK_DEV i64 pk_length(const pk_call& call, const void* lens, int type, i64 sequence, i64 room) {
    const i64 n = pk_index(lens, type, sequence);
    if (n >= 0 && n <= room) return n;
    pk_fault(call, n, room + 1);
    return 0;
}

PK_DEV float pk_score(float dot, const pk_options& o) {
    const float s = dot * o.scale;
    return o.cap > 0.f ? o.cap * tanhf(s / o.cap) : s;
}

// e^(s - max), 0 where nothing was seen.
PK_DEV float pk_weight(float s, float max) { return max == -pk_infinity() ? 0.f : expf(s - max); }

// A row's end: what was summed up to a largest score, with a sink's weight added.
struct pk_end {
    float factor, total, lse; // the factor is for the sums of values
};
PK_DEV pk_end pk_end_of(float most, float total, float sink) {
    const float largest = pk_largest::of(most, sink), factor = pk_weight(most, largest), all = total * factor + pk_weight(sink, largest);
    return pk_end{factor, all, all == 0.f ? -pk_infinity() : largest + logf(all)};
}
// A sum of values as the result; 0 where the row saw nothing.
PK_DEV float pk_result(float sum, const pk_end& end, float v_scale) { return end.total == 0.f ? 0.f : sum * end.factor * v_scale / end.total; }
#endif
