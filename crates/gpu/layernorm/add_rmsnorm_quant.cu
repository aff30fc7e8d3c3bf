// residual += x; q = the row residual / sqrt(mean(residual^2) + eps) * w to 8 bits by its largest magnitude m = max(|y|, floor):
// scale m / L, values y * (L / m), from the unrounded sum. One block a row, which is read three times, twice from the cache.
#include "types.h"
#include "reduce.h"
typedef pk_type<PK_T>::type T;
typedef pk_type<PK_Q>::type Q;

PK_KERNEL(add_rmsnorm_quant, 1024, pk_call call, const T* PK_RESTRICT x, i64 x_stride, T* PK_RESTRICT residual, i64 r_stride, const T* PK_RESTRICT w, Q* PK_RESTRICT q, i64 q_stride, float* PK_RESTRICT scales, i64 scales_stride, i64 rows, i64 cols, float eps, float floor) {
    PK_ENTER(call);
    PK_SHARED(float, scratch, [PK_WARPS]);
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const T* a = x + row * x_stride;
        T* r = residual + row * r_stride;
        Q* o = q + row * q_stride;
        float squares = 0.f;
        for (i64 i = threadIdx.x; i < cols; i += blockDim.x) {
            const float s = pk_load(a[i]) + pk_load(r[i]);
            squares += s * s;
        }
        const float scale = rsqrtf(pk_block_reduce<pk_sum>(squares, scratch) / (float)cols + eps);
        float m = floor;
        for (i64 i = threadIdx.x; i < cols; i += blockDim.x) {
            const float s = pk_load(a[i]) + pk_load(r[i]);
            m = pk_widest::of(m, fabsf(s * scale * pk_load(w[i])));
        }
        m = pk_block_reduce<pk_widest>(m, scratch);
        const float largest = PK_Q == I8 ? 127.f : 448.f, factor = largest / m;
        for (i64 i = threadIdx.x; i < cols; i += blockDim.x) {
            const float s = pk_load(a[i]) + pk_load(r[i]);
            r[i] = pk_to<T>::of(s);
            o[i] = pk_to<Q>::of(s * scale * pk_load(w[i]) * factor);
        }
        if (threadIdx.x == 0) scales[row * scales_stride] = m / largest;
    }
}
