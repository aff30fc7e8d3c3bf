// residual += x; x = residual / sqrt(mean(residual^2) + eps) * (PK_OFFSET + w), from the unrounded sum: one block a row.
// Both rows are read twice; the second time they come from the cache.
#include "types.h"
#include "reduce.h"
typedef pk_type<PK_T>::type T;
enum { N = pk_lanes<T>::N };
typedef pk_vec<T, N> V;

PK_KERNEL(fused_add, 1024, pk_call call, T* PK_RESTRICT x, i64 x_stride, T* PK_RESTRICT residual, i64 r_stride, const T* PK_RESTRICT w, i64 rows, i64 cols, float eps) {
    PK_ENTER(call);
    PK_SHARED(float, scratch, [PK_WARPS]);
    const bool aligned = pk_rows_aligned(x, x_stride) && pk_rows_aligned(residual, r_stride) && pk_aligned(w);
    const i64 vectors = aligned ? cols / N : 0;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        T* a = x + row * x_stride;
        T* r = residual + row * r_stride;
        float squares = 0.f;
        for (i64 i = threadIdx.x; i < vectors; i += blockDim.x) {
            const V u = ((const V*)a)[i], v = ((const V*)r)[i];
#pragma unroll
            for (int k = 0; k < N; ++k) {
                const float s = pk_load(u.v[k]) + pk_load(v.v[k]);
                squares += s * s;
            }
        }
        for (i64 i = vectors * N + threadIdx.x; i < cols; i += blockDim.x) {
            const float s = pk_load(a[i]) + pk_load(r[i]);
            squares += s * s;
        }
        const float scale = rsqrtf(pk_block_reduce<pk_sum>(squares, scratch) / (float)cols + eps);
        for (i64 i = threadIdx.x; i < vectors; i += blockDim.x) {
            const V u = ((const V*)a)[i], v = ((const V*)r)[i], g = ((const V*)w)[i];
            V sum, out;
#pragma unroll
            for (int k = 0; k < N; ++k) {
                const float s = pk_load(u.v[k]) + pk_load(v.v[k]);
                sum.v[k] = pk_to<T>::of(s);
                out.v[k] = pk_to<T>::of(s * scale * ((float)PK_OFFSET + pk_load(g.v[k])));
            }
            ((V*)r)[i] = sum;
            ((V*)a)[i] = out;
        }
        for (i64 i = vectors * N + threadIdx.x; i < cols; i += blockDim.x) {
            const float s = pk_load(a[i]) + pk_load(r[i]);
            r[i] = pk_to<T>::of(s);
            a[i] = pk_to<T>::of(s * scale * ((float)PK_OFFSET + pk_load(w[i])));
        }
    }
}
