// Two attention results over disjoint tokens as one: one warp a row and head.
#include "attention.h"
typedef pk_type<PK_T>::type T;

PK_KERNEL(merge_state, 128, pk_call call, const T* PK_RESTRICT a, i64 a_token, i64 a_head, const float* PK_RESTRICT lse_a, i64 la_token, const T* PK_RESTRICT b, i64 b_token, i64 b_head, const float* PK_RESTRICT lse_b, i64 lb_token, T* PK_RESTRICT out, i64 o_token, i64 o_head, float* PK_RESTRICT lse, i64 l_token, i64 rows, i64 heads, i64 dim) {
    PK_ENTER(call);
    const i64 at = (i64)blockIdx.x * (blockDim.x / PK_WARP) + threadIdx.x / PK_WARP;
    if (at >= rows * heads) return;
    const i64 row = at / heads, head = at % heads;
    const float s = lse_a[row * la_token + head], t = lse_b[row * lb_token + head];
    const float most = s > t || s != s ? s : t;
    const float wa = s == -pk_infinity() ? 0.f : expf(s - most), wb = t == -pk_infinity() ? 0.f : expf(t - most), total = wa + wb;
    const T *pa = a + row * a_token + head * a_head, *pb = b + row * b_token + head * b_head;
    T* o = out + row * o_token + head * o_head;
    // A part without weight may hold anything.
    for (i64 d = threadIdx.x % PK_WARP; d < dim; d += PK_WARP)
        o[d] = pk_to<T>::of((wa == 0.f ? 0.f : wa / total * pk_load(pa[d])) + (wb == 0.f ? 0.f : wb / total * pk_load(pb[d])));
    if (threadIdx.x % PK_WARP == 0) lse[row * l_token + head] = total == 0.f ? -pk_infinity() : most + logf(total);
}
