// Groups of a row to 8 bits, each with the scale of its largest magnitude: m = max(|x|, eps), scale m / L, values
// x * (L / m). One block a group, or one warp a group where groups are small (PK_WARP_A_GROUP).
#include "types.h"
#include "reduce.h"
typedef pk_type<PK_T>::type T;
typedef pk_type<PK_Q>::type Q;

PK_KERNEL(dynamic, 512, pk_call call, const T* PK_RESTRICT x, i64 x_stride, Q* PK_RESTRICT q, i64 q_stride, float* PK_RESTRICT scales, i64 scales_stride, i64 rows, i64 groups, i64 group, float eps) {
    PK_ENTER(call);
    PK_SHARED(float, scratch, [PK_WARPS]);
#if PK_WARP_A_GROUP
    const int lanes = PK_WARP, lane = threadIdx.x % PK_WARP;
    const i64 first = (i64)blockIdx.x * (blockDim.x / PK_WARP) + threadIdx.x / PK_WARP, step = (i64)gridDim.x * (blockDim.x / PK_WARP);
#else
    const int lanes = blockDim.x, lane = threadIdx.x;
    const i64 first = blockIdx.x, step = gridDim.x;
#endif
    for (i64 at = first; at < rows * groups; at += step) {
        const i64 row = at / groups, g = at % groups;
        const T* a = x + row * x_stride + g * group;
        Q* o = q + row * q_stride + g * group;
        float m = eps;
        for (i64 i = lane; i < group; i += lanes) m = pk_widest::of(m, fabsf(pk_load(a[i])));
#if PK_WARP_A_GROUP
        m = pk_warp_reduce<pk_widest>(m);
#else
        m = pk_block_reduce<pk_widest>(m, scratch);
#endif
        const float largest = PK_Q == I8 ? 127.f : 448.f, factor = largest / m;
        for (i64 i = lane; i < group; i += lanes) o[i] = pk_to<Q>::of(pk_load(a[i]) * factor);
        if (lane == 0) scales[row * scales_stride + g] = m / largest;
    }
}
