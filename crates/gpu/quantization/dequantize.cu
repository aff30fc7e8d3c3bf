// GGUF blocks, or plain floats, as floats: eight elements a thread.
#include "gguf.h"
typedef pk_type<PK_T>::type T;
typedef pk_row<PK_W> R;

PK_KERNEL(dequantize, 256, pk_call call, const u8* PK_RESTRICT weight, i64 w_stride, T* PK_RESTRICT out, i64 out_stride, i64 rows, i64 cols) {
    PK_ENTER(call);
    const i64 i = 8 * ((i64)blockIdx.y * blockDim.x + threadIdx.x);
    if (i >= cols) return;
    for (i64 r = blockIdx.x; r < rows; r += gridDim.x) {
        float v[8];
        R::load8(weight + pk_row_bytes<PK_W>(r * w_stride), i, cols, v);
        pk_store8(out + r * out_stride, i, cols, v);
    }
}
