// Rows of activations to 8 bits: blocks of 32 share the scale of their largest magnitude. One thread an element.
#include "rounded.h"
#include "reduce.h"
typedef pk_type<PK_T>::type T;

PK_KERNEL(round_int8, 128, pk_call call, const T* PK_RESTRICT x, i64 x_stride, i8* PK_RESTRICT q, pk_rounded* PK_RESTRICT blocks, i64 rows, i64 k) {
    PK_ENTER(call);
    const int lane = threadIdx.x % PK_WARP;
    for (i64 r = blockIdx.y; r < rows; r += gridDim.y)
        // A warp stays together, so that all its lanes come to the shuffles.
        for (i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x - lane; first < k; first += (i64)gridDim.x * blockDim.x) {
            const i64 i = first + lane;
            const float v = i < k ? pk_load(x[r * x_stride + i]) : 0.f;
            float m = fabsf(v);
#pragma unroll
            for (int s = 16; s > 0; s >>= 1) m = pk_widest::of(m, pk_shfl_xor(m, s));
            const i8 rounded = pk_to<i8>::of(v * (m > 1e-30f ? 127.f / m : 0.f));
            int sum = rounded;
#pragma unroll
            for (int s = 16; s > 0; s >>= 1) sum += pk_shfl_xor(sum, s);
            if (i >= k) continue;
            q[r * k + i] = rounded;
            // A block with a NaN or an infinity becomes NaN.
            const float scale = m < pk_infinity() ? m / 127.f : pk_nan();
            if (i % 32 == 0) blocks[(r * k + i) / 32] = pk_rounded{scale, scale * (float)sum};
        }
}
