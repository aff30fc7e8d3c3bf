// One head of one token, by one warp: norm, turn, store.
#ifndef PK_ROTARY_H
#define PK_ROTARY_H
#include "types.h"
#include "reduce.h"

// The factor that normalises a head; all lanes have read it when this returns.
template <class T> PK_DEV float pk_head_scale(const T* head, int dim, float eps) {
    float squares = 0.f;
    for (int i = threadIdx.x % PK_WARP; i < dim; i += PK_WARP) squares += pk_load(head[i]) * pk_load(head[i]);
    return rsqrtf(pk_warp_reduce<pk_sum>(squares) / (float)dim + eps);
}

// Turns a pair, each element times its factor first.
template <class T> PK_DEV void pk_turn_pair(T& x, T& y, float of_x, float of_y, float c, float s) {
    const float a = pk_load(x) * of_x, b = pk_load(y) * of_y;
    x = pk_to<T>::of(a * c - b * s);
    y = pk_to<T>::of(b * c + a * s);
}
// The factor of element i: that of a norm, whose weight may be null.
template <class T> PK_DEV float pk_factor(const T* weight, int i, float scale) { return weight ? scale * pk_load(weight[i]) : 1.f; }

// Turns `W` pairs at a time.
template <int W, class T>
PK_DEV void pk_turn_pairs(T* head, const float* cos_sin, int half, bool neox, const T* weight, float scale) {
    typedef pk_vec<T, W> V;
    for (int j = threadIdx.x % PK_WARP * W; j < half; j += PK_WARP * W) {
        if (neox) {
            V u = *(const V*)(head + j), v = *(const V*)(head + j + half);
#pragma unroll
            for (int k = 0; k < W; ++k)
                pk_turn_pair(u.v[k], v.v[k], pk_factor(weight, j + k, scale), pk_factor(weight, j + k + half, scale), cos_sin[j + k], cos_sin[half + j + k]);
            *(V*)(head + j) = u;
            *(V*)(head + j + half) = v;
        } else {
            typedef pk_vec<T, 2 * W> V2;
            V2 u = *(const V2*)(head + 2 * j);
#pragma unroll
            for (int k = 0; k < W; ++k)
                pk_turn_pair(u.v[2 * k], u.v[2 * k + 1], pk_factor(weight, 2 * (j + k), scale), pk_factor(weight, 2 * (j + k) + 1, scale), cos_sin[j + k], cos_sin[half + j + k]);
            *(V2*)(head + 2 * j) = u;
        }
    }
}

template <class T> PK_DEV void pk_turn(T* head, const float* cos_sin, int dim, int half, bool neox, const T* weight, float scale) {
    // Vectors of one memory access: 16 bytes at most, whatever the pairing.
    enum { W = 8 / (int)sizeof(T) };
    const u64 unit = W * sizeof(T) * (neox ? 1 : 2);
    if (half % W == 0 && (u64)head % unit == 0) pk_turn_pairs<W>(head, cos_sin, half, neox, weight, scale);
    else if (neox || (u64)head % (2 * sizeof(T)) == 0) pk_turn_pairs<1>(head, cos_sin, half, neox, weight, scale);
    else
        for (int j = threadIdx.x % PK_WARP; j < half; j += PK_WARP)
            pk_turn_pair(head[2 * j], head[2 * j + 1], pk_factor(weight, 2 * j, scale), pk_factor(weight, 2 * j + 1, scale), cos_sin[j], cos_sin[half + j]);
    // What lies behind the rotary part is normalised only.
    if (weight)
        for (int i = 2 * half + threadIdx.x % PK_WARP; i < dim; i += PK_WARP) head[i] = pk_to<T>::of(pk_load(head[i]) * scale * pk_load(weight[i]));
}

// A head into a cache of another type, divided by its scale.
template <class T, class C> PK_DEV void pk_store_head(const T* from, C* to, int dim, float scale) {
    for (int i = threadIdx.x % PK_WARP; i < dim; i += PK_WARP) to[i] = pk_to<C>::of(pk_load(from[i]) / scale);
}

// The row of the cosines for a token; -1 where its position has none, which is reported.
PK_DEV i64 pk_position(const pk_call& call, const void* positions, int type, i64 token, i64 limit) {
    const i64 p = pk_index(positions, type, token);
    if (p >= 0 && p < limit) return p;
    pk_fault(call, p, limit);
    return -1;
}

// The slot of a token, for a whole warp; -1 where it has none (which is reported unless it is negative), or a later token
// has the same one: the last of them is stored, whatever runs first.
PK_DEV i64 pk_slot(const pk_call& call, const void* slots, int type, i64 token, i64 tokens, i64 limit) {
    const i64 s = pk_index(slots, type, token);
    if (s < 0) return -1;
    if (s >= limit) {
        pk_fault(call, s, limit);
        return -1;
    }
    int again = 0;
    for (i64 i = token + 1 + threadIdx.x % PK_WARP; i < tokens; i += PK_WARP) again |= pk_index(slots, type, i) == s;
    return pk_ballot(again) ? -1 : s;
}

// Where a slot's head lies in a cache `[blocks, block_size, heads, dim]`.
PK_DEV i64 pk_place(i64 slot, i64 block_size, i64 block_stride, i64 token_stride, i64 head_stride, i64 head) {
    return slot / block_size * block_stride + slot % block_size * token_stride + head * head_stride;
}
#endif
