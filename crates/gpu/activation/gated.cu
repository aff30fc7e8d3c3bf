// out = f(gate) * up, gate the first half of a row and up the second: 16 bytes a thread where halves are aligned.
#include "types.h"
typedef pk_type<PK_T>::type T;
enum { N = pk_lanes<T>::N, SILU = 0, GELU = 1, GELU_TANH = 2 };
typedef pk_vec<T, N> V;

PK_DEV float pk_gate(float x) {
    if (PK_F == SILU) return x / (1.f + expf(-x));
    if (PK_F == GELU) return x * 0.5f * erfcf(-x * 0.70710678f);
    return x / (1.f + expf(-1.59576912f * (x + 0.044715f * x * x * x)));
}

PK_KERNEL(gated, 256, pk_call call, const T* PK_RESTRICT x, i64 x_stride, T* PK_RESTRICT out, i64 out_stride, i64 rows, i64 d) {
    PK_ENTER(call);
    const bool aligned = pk_rows_aligned(x, x_stride) && pk_rows_aligned(out, out_stride) && d % N == 0;
    for (i64 row = blockIdx.y; row < rows; row += gridDim.y) {
        const T *gate = x + row * x_stride, *up = gate + d;
        T* o = out + row * out_stride;
        if (aligned) {
            for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < d / N; i += (i64)gridDim.x * blockDim.x) {
                const V g = ((const V*)gate)[i], u = ((const V*)up)[i];
                V r;
#pragma unroll
                for (int k = 0; k < N; ++k) r.v[k] = pk_to<T>::of(pk_gate(pk_load(g.v[k])) * pk_load(u.v[k]));
                ((V*)o)[i] = r;
            }
        } else {
            for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < d; i += (i64)gridDim.x * blockDim.x)
                o[i] = pk_to<T>::of(pk_gate(pk_load(gate[i])) * pk_load(up[i]));
        }
    }
}
