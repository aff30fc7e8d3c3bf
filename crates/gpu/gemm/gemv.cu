// out = x * weight^T + bias for few rows: one warp a feature and PK_M rows, so that the weight is read once for all of
// them; eight weights a lane and turn.
#include "gguf.h"
#include "reduce.h"
typedef pk_type<PK_T>::type T;
typedef pk_row<PK_W> R;

PK_KERNEL(gemv, 256, pk_call call, const T* PK_RESTRICT x, i64 x_stride, const u8* PK_RESTRICT weight, i64 w_stride, const T* PK_RESTRICT bias, T* PK_RESTRICT out, i64 out_stride, i64 rows, i64 features, i64 k) {
    PK_ENTER(call);
    const int lane = threadIdx.x % PK_WARP;
    const i64 feature = (i64)blockIdx.x * (blockDim.x / PK_WARP) + threadIdx.x / PK_WARP, first = (i64)blockIdx.y * PK_M;
    if (feature >= features) return;
    const u8* w = weight + pk_row_bytes<PK_W>(feature * w_stride);
    float sums[PK_M];
#pragma unroll
    for (int m = 0; m < PK_M; ++m) sums[m] = 0.f;
    for (i64 i = 8 * lane; i < k; i += 8 * PK_WARP) {
        float a[8], b[8];
        R::load8(w, i, k, a);
#pragma unroll
        for (int m = 0; m < PK_M; ++m)
            if (first + m < rows) {
                pk_plain8(x + (first + m) * x_stride, i, k, b);
#pragma unroll
                for (int j = 0; j < 8; ++j) sums[m] += a[j] * b[j];
            }
    }
#pragma unroll
    for (int m = 0; m < PK_M; ++m) {
        const float sum = pk_warp_reduce<pk_sum>(sums[m]);
        if (lane == 0 && first + m < rows) out[(first + m) * out_stride + feature] = pk_to<T>::of(sum + (bias ? pk_load(bias[feature]) : 0.f));
    }
}
