// Entries whose bit is 0 get -infinity, in place.
#include "types.h"
typedef pk_type<PK_T>::type T;

PK_KERNEL(apply_mask, 256, pk_call call, T* PK_RESTRICT logits, i64 stride, const u32* PK_RESTRICT mask, i64 mask_stride, i64 rows, i64 cols) {
    PK_ENTER(call);
    for (i64 row = blockIdx.y; row < rows; row += gridDim.y)
        for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < cols; i += (i64)gridDim.x * blockDim.x)
            if ((mask[row * mask_stride + i / 32] >> (i % 32) & 1u) == 0) logits[row * stride + i] = pk_to<T>::of(-pk_infinity());
}
