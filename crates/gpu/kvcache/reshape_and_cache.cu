// New keys and values into their slots of a paged cache: one warp a head of one of them.
#include "rotary.h"
typedef pk_type<PK_T>::type T;
typedef pk_type<PK_C>::type C;

PK_KERNEL(reshape_and_cache, 128, pk_call call, const T* k, i64 k_token, i64 k_head, const T* v, i64 v_token, i64 v_head, C* k_cache, i64 kc_block, i64 kc_token, i64 kc_head, C* v_cache, i64 vc_block, i64 vc_token, i64 vc_head, const void* slots, int slots_type, i64 blocks, i64 block_size, i64 tokens, i64 heads, i64 dim, float k_scale, float v_scale) {
    PK_ENTER(call);
    const i64 head = (i64)blockIdx.y * (blockDim.x / PK_WARP) + threadIdx.x / PK_WARP;
    if (head >= 2 * heads) return;
    const i64 h = head % heads;
    for (i64 t = blockIdx.x; t < tokens; t += gridDim.x) {
        const i64 slot = pk_slot(call, slots, slots_type, t, tokens, blocks * block_size);
        if (slot < 0) continue;
        if (head < heads) pk_store_head(k + t * k_token + h * k_head, k_cache + pk_place(slot, block_size, kc_block, kc_token, kc_head, h), (int)dim, k_scale);
        else pk_store_head(v + t * v_token + h * v_head, v_cache + pk_place(slot, block_size, vc_block, vc_token, vc_head, h), (int)dim, v_scale);
    }
}
