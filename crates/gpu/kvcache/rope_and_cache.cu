// Rotary embedding of q and k in place, behind a norm of each head where PK_NORM is 1, and k and v into their slots of a paged cache: one warp a head of q, k or v.
#include "rotary.h"
typedef pk_type<PK_T>::type T;
typedef pk_type<PK_C>::type C;

PK_DEV void pk_turn_head(T* h, const float* cos_sin, int dim, int half, bool neox, const T* weight, float eps) {
#if PK_NORM
    const float scale = pk_head_scale(h, dim, eps);
    pk_turn(h, cos_sin, dim, half, neox, weight, scale);
#else
    pk_turn(h, cos_sin, dim, half, neox, (const T*)0, 1.f);
#endif
}

PK_KERNEL_OF(rope_and_cache, 128, 4, pk_call call, const void* positions, int positions_type, T* q, i64 q_token, i64 q_head, T* k, i64 k_token, i64 k_head, const T* v, i64 v_token, i64 v_head, const float* PK_RESTRICT cos_sin, i64 cos_stride, i64 limit, C* k_cache, i64 kc_block, i64 kc_token, i64 kc_head, C* v_cache, i64 vc_block, i64 vc_token, i64 vc_head, const void* slots, int slots_type, i64 blocks, i64 block_size, i64 tokens, i64 q_heads, i64 k_heads, i64 dim, i64 half, int neox, float k_scale, float v_scale, const T* PK_RESTRICT q_weight, const T* PK_RESTRICT k_weight, float eps) {
    PK_ENTER(call);
    const i64 head = (i64)blockIdx.y * (blockDim.x / PK_WARP) + threadIdx.x / PK_WARP;
    if (head >= q_heads + 2 * k_heads) return;
    const i64 kv_head = (head - q_heads) % (k_heads ? k_heads : 1);
    for (i64 t = blockIdx.x; t < tokens; t += gridDim.x) {
        const i64 p = pk_position(call, positions, positions_type, t, limit);
        if (p < 0) continue;
        if (head < q_heads) {
            pk_turn_head(q + t * q_token + head * q_head, cos_sin + p * cos_stride, (int)dim, (int)half, neox != 0, q_weight, eps);
            continue;
        }
        const bool is_k = head < q_heads + k_heads;
        T* h = k + t * k_token + kv_head * k_head;
        if (is_k) pk_turn_head(h, cos_sin + p * cos_stride, (int)dim, (int)half, neox != 0, k_weight, eps);
        const i64 slot = pk_slot(call, slots, slots_type, t, tokens, blocks * block_size);
        pk_warp_sync(); // a lane stores what others have turned
        if (slot < 0) continue;
        if (is_k) pk_store_head(h, k_cache + pk_place(slot, block_size, kc_block, kc_token, kc_head, kv_head), (int)dim, k_scale);
        else pk_store_head(v + t * v_token + kv_head * v_head, v_cache + pk_place(slot, block_size, vc_block, vc_token, vc_head, kv_head), (int)dim, v_scale);
    }
}
