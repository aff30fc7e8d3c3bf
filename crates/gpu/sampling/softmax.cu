// Probabilities of a row, e^((x - max) / temperature) over its sum: one block a row, which is read three times, from the
// cache after the first.
#include "types.h"
#include "reduce.h"
typedef pk_type<PK_T>::type T;

PK_KERNEL(softmax, 1024, pk_call call, const T* PK_RESTRICT x, i64 x_stride, float* PK_RESTRICT out, i64 out_stride, i64 rows, i64 cols, float temperature) {
    PK_ENTER(call);
    PK_SHARED(float, scratch, [PK_WARPS]);
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const T* a = x + row * x_stride;
        float* o = out + row * out_stride;
        float most = -pk_infinity(), open = 0.f;
        for (i64 i = threadIdx.x; i < cols; i += blockDim.x) {
            const float v = pk_load(a[i]);
            most = v > most ? v : most;
            if (v != -pk_infinity()) open = 1.f;
        }
        most = pk_block_reduce<pk_largest>(most, scratch);
        open = pk_block_reduce<pk_sum>(open, scratch);
        float sum = 0.f;
        for (i64 i = threadIdx.x; i < cols; i += blockDim.x) sum += expf((pk_load(a[i]) - most) / temperature);
        sum = pk_block_reduce<pk_sum>(sum, scratch);
        for (i64 i = threadIdx.x; i < cols; i += blockDim.x) o[i] = open == 0.f ? 0.f : expf((pk_load(a[i]) - most) / temperature) / sum;
    }
}
