// y = x / sqrt(mean(x^2) + eps) * (PK_OFFSET + w): one block a row, 16 bytes a thread where rows are aligned. The row is
// read twice; the second time it comes from the cache.
#include "types.h"
#include "reduce.h"
typedef pk_type<PK_T>::type T;
enum { N = pk_lanes<T>::N };
typedef pk_vec<T, N> V;

PK_KERNEL(rms, 1024, pk_call call, const T* PK_RESTRICT x, i64 x_stride, const T* PK_RESTRICT w, T* PK_RESTRICT y, i64 y_stride, i64 rows, i64 cols, float eps) {
    PK_ENTER(call);
    PK_SHARED(float, scratch, [PK_WARPS]);
    const bool aligned = pk_rows_aligned(x, x_stride) && pk_rows_aligned(y, y_stride) && pk_aligned(w);
    const i64 vectors = aligned ? cols / N : 0;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const T* a = x + row * x_stride;
        T* o = y + row * y_stride;
        float sum = 0.f;
        for (i64 i = threadIdx.x; i < vectors; i += blockDim.x) {
            const V v = ((const V*)a)[i];
#pragma unroll
            for (int k = 0; k < N; ++k) sum += pk_load(v.v[k]) * pk_load(v.v[k]);
        }
        for (i64 i = vectors * N + threadIdx.x; i < cols; i += blockDim.x) sum += pk_load(a[i]) * pk_load(a[i]);
        const float scale = rsqrtf(pk_block_reduce<pk_sum>(sum, scratch) / (float)cols + eps);
        for (i64 i = threadIdx.x; i < vectors; i += blockDim.x) {
            const V v = ((const V*)a)[i], g = ((const V*)w)[i];
            V out;
#pragma unroll
            for (int k = 0; k < N; ++k) out.v[k] = pk_to<T>::of(pk_load(v.v[k]) * scale * ((float)PK_OFFSET + pk_load(g.v[k])));
            ((V*)o)[i] = out;
        }
        for (i64 i = vectors * N + threadIdx.x; i < cols; i += blockDim.x)
            o[i] = pk_to<T>::of(pk_load(a[i]) * scale * ((float)PK_OFFSET + pk_load(w[i])));
    }
}
