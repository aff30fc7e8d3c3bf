// Rotary embedding of q and k in place, behind a norm of each head where PK_NORM is 1: one warp a head.
#include "rotary.h"
typedef pk_type<PK_T>::type T;

PK_KERNEL(rope, 128, pk_call call, const void* positions, int positions_type, T* q, i64 q_token, i64 q_head, T* k, i64 k_token, i64 k_head, const float* PK_RESTRICT cos_sin, i64 cos_stride, i64 limit, i64 tokens, i64 q_heads, i64 k_heads, i64 dim, i64 half, int neox, const T* PK_RESTRICT q_weight, const T* PK_RESTRICT k_weight, float eps) {
    PK_ENTER(call);
    const i64 head = (i64)blockIdx.y * (blockDim.x / PK_WARP) + threadIdx.x / PK_WARP;
    if (head >= q_heads + k_heads) return;
    const bool is_q = head < q_heads;
    for (i64 t = blockIdx.x; t < tokens; t += gridDim.x) {
        const i64 p = pk_position(call, positions, positions_type, t, limit);
        if (p < 0) continue;
        T* h = is_q ? q + t * q_token + head * q_head : k + t * k_token + (head - q_heads) * k_head;
#if PK_NORM
        const T* weight = is_q ? q_weight : k_weight;
        const float scale = pk_head_scale(h, (int)dim, eps);
        pk_turn(h, cos_sin + p * cos_stride, (int)dim, (int)half, neox != 0, weight, scale);
#else
        pk_turn(h, cos_sin + p * cos_stride, (int)dim, (int)half, neox != 0, (const T*)0, 1.f);
#endif
    }
}
