// q = the row silu(gate) * up to 8 bits by its largest magnitude m = max(|y|, floor): scale m / L, values y * (L / m). One
// block a row, which is read twice, the second time from the cache.
#include "types.h"
#include "reduce.h"
typedef pk_type<PK_T>::type T;
typedef pk_type<PK_Q>::type Q;

PK_DEV float pk_gated(const T* gate, const T* up, i64 i) {
    const float g = pk_load(gate[i]);
    return g / (1.f + expf(-g)) * pk_load(up[i]);
}

PK_KERNEL(silu_and_mul_quant, 1024, pk_call call, const T* PK_RESTRICT x, i64 x_stride, Q* PK_RESTRICT q, i64 q_stride, float* PK_RESTRICT scales, i64 scales_stride, i64 rows, i64 d, float floor) {
    PK_ENTER(call);
    PK_SHARED(float, scratch, [PK_WARPS]);
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const T *gate = x + row * x_stride, *up = gate + d;
        Q* o = q + row * q_stride;
        float m = floor;
        for (i64 i = threadIdx.x; i < d; i += blockDim.x) m = pk_widest::of(m, fabsf(pk_gated(gate, up, i)));
        m = pk_block_reduce<pk_widest>(m, scratch);
        const float largest = PK_Q == I8 ? 127.f : 448.f, factor = largest / m;
        for (i64 i = threadIdx.x; i < d; i += blockDim.x) o[i] = pk_to<Q>::of(pk_gated(gate, up, i) * factor);
        if (threadIdx.x == 0) scales[row * scales_stride] = m / largest;
    }
}
