// Parts of attention over disjoint tokens (sums, largest score, weight) as the result: one warp a row and head.
#include "attention.h"
typedef pk_type<PK_T>::type T;

PK_KERNEL(combine, 128, pk_call call, const float* PK_RESTRICT parts, i64 splits, const float* PK_RESTRICT sinks, T* PK_RESTRICT out, i64 out_token, i64 out_head, float* PK_RESTRICT lse, i64 lse_token, i64 rows, i64 heads, i64 dim, float v_scale) {
    PK_ENTER(call);
    const i64 at = (i64)blockIdx.x * (blockDim.x / PK_WARP) + threadIdx.x / PK_WARP;
    if (at >= rows * heads) return;
    const i64 row = at / heads, head = at % heads;
    const int lane = threadIdx.x % PK_WARP;
    const float* mine = parts + at * splits * (dim + 2);
    const float sink = sinks ? sinks[head] : -pk_infinity();
    float most = sink;
    for (i64 s = lane; s < splits; s += PK_WARP) most = pk_largest::of(most, mine[s * (dim + 2) + dim]);
    most = pk_warp_reduce<pk_largest>(most);
    float total = 0.f;
    for (i64 s = lane; s < splits; s += PK_WARP) total += mine[s * (dim + 2) + dim + 1] * pk_weight(mine[s * (dim + 2) + dim], most);
    total = pk_warp_reduce<pk_sum>(total) + pk_weight(sink, most);
    for (i64 d = lane; d < dim; d += PK_WARP) {
        float sum = 0.f;
        for (i64 s = 0; s < splits; ++s) sum += mine[s * (dim + 2) + d] * pk_weight(mine[s * (dim + 2) + dim], most);
        out[row * out_token + head * out_head + d] = pk_to<T>::of(total == 0.f ? 0.f : sum * v_scale / total);
    }
    if (lse && lane == 0) lse[row * lse_token + head] = total == 0.f ? -pk_infinity() : most + logf(total);
}
