// y = (x - mean) / sqrt(variance + eps) * w + b, the variance from the differences: one block a row. The row is read three
// times, from the cache after the first.
#include "types.h"
#include "reduce.h"
typedef pk_type<PK_T>::type T;
enum { N = pk_lanes<T>::N };
typedef pk_vec<T, N> V;

PK_KERNEL(layernorm, 1024, pk_call call, const T* PK_RESTRICT x, i64 x_stride, const T* PK_RESTRICT w, const T* PK_RESTRICT b, T* PK_RESTRICT y, i64 y_stride, i64 rows, i64 cols, float eps) {
    PK_ENTER(call);
    PK_SHARED(float, scratch, [PK_WARPS]);
    const bool aligned = pk_rows_aligned(x, x_stride) && pk_rows_aligned(y, y_stride) && pk_aligned(w) && pk_aligned(b);
    const i64 vectors = aligned ? cols / N : 0;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const T* a = x + row * x_stride;
        T* o = y + row * y_stride;
        float sum = 0.f;
        for (i64 i = threadIdx.x; i < vectors; i += blockDim.x) {
            const V v = ((const V*)a)[i];
#pragma unroll
            for (int k = 0; k < N; ++k) sum += pk_load(v.v[k]);
        }
        for (i64 i = vectors * N + threadIdx.x; i < cols; i += blockDim.x) sum += pk_load(a[i]);
        const float mean = pk_block_reduce<pk_sum>(sum, scratch) / (float)cols;
        float squares = 0.f;
        for (i64 i = threadIdx.x; i < vectors; i += blockDim.x) {
            const V v = ((const V*)a)[i];
#pragma unroll
            for (int k = 0; k < N; ++k) squares += (pk_load(v.v[k]) - mean) * (pk_load(v.v[k]) - mean);
        }
        for (i64 i = vectors * N + threadIdx.x; i < cols; i += blockDim.x) squares += (pk_load(a[i]) - mean) * (pk_load(a[i]) - mean);
        const float scale = rsqrtf(pk_block_reduce<pk_sum>(squares, scratch) / (float)cols + eps);
        for (i64 i = threadIdx.x; i < vectors; i += blockDim.x) {
            const V v = ((const V*)a)[i], g = ((const V*)w)[i];
            V c, out;
            if (b) c = ((const V*)b)[i];
#pragma unroll
            for (int k = 0; k < N; ++k) out.v[k] = pk_to<T>::of((pk_load(v.v[k]) - mean) * scale * pk_load(g.v[k]) + (b ? pk_load(c.v[k]) : 0.f));
            ((V*)o)[i] = out;
        }
        for (i64 i = vectors * N + threadIdx.x; i < cols; i += blockDim.x)
            o[i] = pk_to<T>::of((pk_load(a[i]) - mean) * scale * pk_load(w[i]) + (b ? pk_load(b[i]) : 0.f));
    }
}
