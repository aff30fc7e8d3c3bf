// out = f(x), element by element; out may be x.
#include "types.h"
typedef pk_type<PK_T>::type T;
enum { N = pk_lanes<T>::N, GELU_QUICK = 0, RELU2 = 1, SOFTCAP = 2 };
typedef pk_vec<T, N> V;

PK_DEV float pk_f(float x, float cap) {
    if (PK_F == GELU_QUICK) return x / (1.f + expf(-1.702f * x));
    if (PK_F == RELU2) return x < 0.f ? 0.f : x * x;
    return cap * tanhf(x / cap);
}

PK_KERNEL(unary, 256, pk_call call, const T* x, i64 x_stride, T* out, i64 out_stride, i64 rows, i64 cols, float cap) {
    PK_ENTER(call);
    const bool aligned = pk_rows_aligned(x, x_stride) && pk_rows_aligned(out, out_stride) && cols % N == 0;
    for (i64 row = blockIdx.y; row < rows; row += gridDim.y) {
        const T* a = x + row * x_stride;
        T* o = out + row * out_stride;
        if (aligned) {
            for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < cols / N; i += (i64)gridDim.x * blockDim.x) {
                V v = ((const V*)a)[i];
#pragma unroll
                for (int k = 0; k < N; ++k) v.v[k] = pk_to<T>::of(pk_f(pk_load(v.v[k]), cap));
                ((V*)o)[i] = v;
            }
        } else {
            for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < cols; i += (i64)gridDim.x * blockDim.x)
                o[i] = pk_to<T>::of(pk_f(pk_load(a[i]), cap));
        }
    }
}
