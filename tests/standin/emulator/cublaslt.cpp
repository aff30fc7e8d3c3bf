// The part of libcublasLt that the CUDA backend calls: column-major products, summed in double, on a device's queue.
#include "device.h"
#include <cstring>
using namespace device;
typedef void* P;
typedef const void* C;
namespace {
struct Operation { int transa = 0, epilogue = 1; uintptr_t bias = 0; };
struct Matrix { int type; uint64_t rows, cols; int64_t stride; };
struct Preference { size_t workspace = 0; uint32_t alignment[4] = {256, 256, 256, 256}; };
struct Heuristic { uint64_t algo[8]; size_t workspace; int state; float waves; int reserved[4]; };

size_t size_of(int type) { return type == 0 ? 4 : 2; }
double load(int type, uintptr_t base, int64_t at) {
    if (type == 0) return ((float*)base)[at];
    const uint16_t bits = ((uint16_t*)base)[at];
    if (type == 2) { _Float16 h; memcpy(&h, &bits, 2); return (double)(float)h; }
    const uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, 4);
    return f;
}
void store(int type, uintptr_t base, int64_t at, float f) {
    if (type == 0) { ((float*)base)[at] = f; return; }
    uint16_t bits;
    if (type == 2) { _Float16 h = (_Float16)f; memcpy(&bits, &h, 2); }
    else {
        uint32_t u;
        memcpy(&u, &f, 4);
        bits = f != f ? 0x7fff : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
    }
    ((uint16_t*)base)[at] = bits;
}
}
#define GUARD(name) std::lock_guard<std::recursive_mutex> guard(lock()); if (enter(#name)) return 14;

extern "C" int cublasLtCreate(P* h) { GUARD(cublasLtCreate) *h = (P)0x3000; return 0; }
extern "C" int cublasLtMatmulDescCreate(P* d, int compute, int scale) { if (compute != 68 || scale != 0) return 15; *d = new Operation; return 0; }
extern "C" int cublasLtMatmulDescDestroy(P d) { delete (Operation*)d; return 0; }
extern "C" int cublasLtMatmulDescSetAttribute(P d, int attribute, C value, size_t bytes) {
    auto* o = (Operation*)d;
    if (attribute == 3 && bytes == 4) memcpy(&o->transa, value, 4);
    else if (attribute == 7 && bytes == 4) memcpy(&o->epilogue, value, 4);
    else if (attribute == 8 && bytes == 8) memcpy(&o->bias, value, 8);
    else return 7;
    return 0;
}
extern "C" int cublasLtMatrixLayoutCreate(P* m, int type, uint64_t rows, uint64_t cols, int64_t stride) {
    if (!rows || !cols || stride < (int64_t)rows) return 7;
    *m = new Matrix{type, rows, cols, stride};
    return 0;
}
extern "C" int cublasLtMatrixLayoutDestroy(P m) { delete (Matrix*)m; return 0; }
extern "C" int cublasLtMatmulPreferenceCreate(P* p) { *p = new Preference; return 0; }
extern "C" int cublasLtMatmulPreferenceDestroy(P p) { delete (Preference*)p; return 0; }
extern "C" int cublasLtMatmulPreferenceSetAttribute(P p, int attribute, C value, size_t bytes) {
    auto* q = (Preference*)p;
    if (attribute == 1 && bytes == 8) memcpy(&q->workspace, value, 8);
    else if (attribute >= 5 && attribute <= 8 && bytes == 4) memcpy(&q->alignment[attribute - 5], value, 4);
    else if (attribute != 3) return 7;
    return 0;
}
extern "C" int cublasLtMatmulAlgoGetHeuristic(P, P operation, P a, P b, P c, P d, P preference, int, Heuristic* result, int* found) {
    GUARD(cublasLtMatmulAlgoGetHeuristic)
    const auto *ma = (Matrix*)a, *mb = (Matrix*)b, *md = (Matrix*)d;
    auto* p = (Preference*)preference;
    *found = 0;
    if (((Operation*)operation)->transa != 1 || ma->rows != mb->rows || ma->cols != md->rows || mb->cols != md->cols || c != d) return 7;
    memset(result, 0, sizeof *result);
    // What it was promised is checked at the product.
    for (int i = 0; i < 4; i++) result->algo[i] = p->alignment[i];
    result->workspace = p->workspace < 1024 ? p->workspace : 1024;
    *found = 1;
    return 0;
}
extern "C" int cublasLtMatmul(P, P operation, C alpha, C a, P ma, C b, P mb, C beta, C, P, P d, P md, const uint64_t* algo, P workspace, size_t bytes, P stream) {
    GUARD(cublasLtMatmul)
    const Operation o = *(Operation*)operation;
    const Matrix A = *(Matrix*)ma, B = *(Matrix*)mb, D = *(Matrix*)md;
    if (*(float*)alpha != 1.f || *(float*)beta != 0.f || (uintptr_t)a % algo[0] || (uintptr_t)b % algo[1] || (uintptr_t)d % algo[3] || (bytes && !workspace)) return 7;
    push(stream_of(stream), [=]() -> int {
        if (bytes) { if (int e = fill((uintptr_t)workspace, 0x55, bytes)) return e; }
        for (uint64_t j = 0; j < D.cols; j++)
            for (uint64_t i = 0; i < D.rows; i++) {
                double sum = o.epilogue == 4 ? load(D.type, o.bias, i) : 0;
                for (uint64_t p = 0; p < A.rows; p++) sum += load(A.type, (uintptr_t)a, p + i * A.stride) * load(B.type, (uintptr_t)b, p + j * B.stride);
                store(D.type, (uintptr_t)d, i + j * D.stride, (float)sum);
            }
        return SUCCESS;
    });
    return 0;
}
