// Row ids[r] of the table into row r of the output, eight elements a thread; a bad id is reported and gives zeros.
#include "gguf.h"
typedef pk_type<PK_T>::type T;
typedef pk_row<PK_W> R;

PK_KERNEL(embedding, 256, pk_call call, const void* ids, int ids_type, const u8* PK_RESTRICT table, i64 table_stride, i64 table_rows, T* PK_RESTRICT out, i64 out_stride, i64 rows, i64 cols) {
    PK_ENTER(call);
    const i64 i = 8 * ((i64)blockIdx.y * blockDim.x + threadIdx.x);
    if (i >= cols) return;
    for (i64 r = blockIdx.x; r < rows; r += gridDim.x) {
        const i64 id = pk_index(ids, ids_type, r);
        float v[8] = {0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f};
        if (id >= 0 && id < table_rows) R::load8(table + pk_row_bytes<PK_W>(id * table_stride), i, cols, v);
        else if (i == 0) pk_fault(call, id, table_rows);
        pk_store8(out + r * out_stride, i, cols, v);
    }
}
