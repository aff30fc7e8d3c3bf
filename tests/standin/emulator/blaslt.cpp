// The part of libcublasLt and libhipblaslt that the backends call: column-major products, summed in double, on a device's
// queue. The two differ in names and numbers.
#include "device.h"
#include <cmath>
#include <cstring>
using namespace device;
typedef void* P;
typedef const void* C;
namespace {
struct Operation { int transa = 0, epilogue = 1, bias_type = -1, modes[2] = {0, 0}; uintptr_t bias = 0, scales[2] = {0, 0}; };
struct Matrix { int type; uint64_t rows, cols; int64_t stride; };
struct Preference { size_t workspace = 0; uint32_t alignment[4] = {256, 256, 256, 256}; };

double load(int type, uintptr_t base, int64_t at) {
    if (type == 0) return ((float*)base)[at];
    if (type == 28) { // f8_e4m3
        const uint8_t v = ((uint8_t*)base)[at];
        const int e = v >> 3 & 15, m = v & 7;
        const double a = (v & 0x7f) == 0x7f ? NAN : e == 0 ? ldexp(m, -9) : ldexp(8 + m, e - 10);
        return v & 0x80 ? -a : a;
    }
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

int set_operation(P d, int attribute, C value, size_t bytes, const int* numbers) {
    // transpose, epilogue, bias, its type, modes and pointers of scales
    auto* o = (Operation*)d;
    void* const fields[8] = {&o->transa, &o->epilogue, &o->bias, &o->bias_type, &o->modes[0], &o->modes[1], &o->scales[0], &o->scales[1]};
    const size_t sizes[8] = {4, 4, 8, 4, 4, 4, 8, 8};
    for (int i = 0; i < 8; i++)
        if (attribute == numbers[i] && bytes == sizes[i]) { memcpy(fields[i], value, bytes); return 0; }
    return -1;
}
int matrix(P* m, int type, uint64_t rows, uint64_t cols, int64_t stride) {
    if (!rows || !cols || stride < (int64_t)rows) return -1;
    *m = new Matrix{type, rows, cols, stride};
    return 0;
}
// An algorithm of so many words and its workspace. What it was promised is checked at the product.
int heuristic(P operation, P a, P b, P c, P d, P preference, uint64_t* result, int words, int op_t, int* found) {
    const auto *ma = (Matrix*)a, *mb = (Matrix*)b, *md = (Matrix*)d;
    const auto* o = (Operation*)operation;
    const auto* p = (Preference*)preference;
    *found = 0;
    if (o->transa != op_t || ma->rows != mb->rows || ma->cols != md->rows || mb->cols != md->cols || ma->type != mb->type || c != d) return -1;
    // 8-bit products: scales for each row, nothing that is not a multiple of 16, a bias of the result's 16 bits.
    if (ma->type == 28 && (o->modes[0] != 3 || o->modes[1] != 3 || md->type == 0 || ma->rows % 16 || ma->cols % 16 || ma->stride % 16 || mb->stride % 16 || md->stride % 8)) return 0;
    if (o->epilogue == 4 && o->bias_type != md->type) return 0;
    memset(result, 0, 8 * words);
    result[0] = words == 8 ? p->alignment[0] | (uint64_t)p->alignment[1] << 16 | (uint64_t)p->alignment[3] << 32 : 1 | 1 << 16 | 1ull << 32;
    result[words] = p->workspace < 1024 ? p->workspace : 1024;
    *found = 1;
    return 0;
}
int product(P operation, C alpha, C a, P ma, C b, P mb, C beta, P d, P md, const uint64_t* algo, P workspace, size_t bytes, P stream) {
    const Operation o = *(Operation*)operation;
    const Matrix A = *(Matrix*)ma, B = *(Matrix*)mb, D = *(Matrix*)md;
    auto aligned = [&](C at, int shift) { return (uintptr_t)at % (algo[0] >> shift & 0xffff) == 0; };
    if (*(float*)alpha != 1.f || *(float*)beta != 0.f || !aligned(a, 0) || !aligned(b, 16) || !aligned(d, 32) || (bytes && !workspace)) return -1;
    push(stream_of(stream), [=]() -> int {
        if (bytes) { if (int e = fill((uintptr_t)workspace, 0x55, bytes)) return e; }
        for (uint64_t j = 0; j < D.cols; j++)
            for (uint64_t i = 0; i < D.rows; i++) {
                double sum = 0;
                for (uint64_t p = 0; p < A.rows; p++) sum += load(A.type, (uintptr_t)a, p + i * A.stride) * load(B.type, (uintptr_t)b, p + j * B.stride);
                if (o.modes[0] == 3) sum *= load(0, o.scales[0], i) * load(0, o.scales[1], j);
                if (o.epilogue == 4) sum += load(D.type, o.bias, i);
                store(D.type, (uintptr_t)d, i + j * D.stride, (float)sum);
            }
        return SUCCESS;
    });
    return 0;
}
const int CUDA_NUMBERS[8] = {3, 7, 8, 26, 31, 32, 17, 18}, HIP_NUMBERS[8] = {0, 2, 3, 4, -1, -1, -1, -1};
}
// Statuses: internal error, not supported, invalid value.
#define LIBRARY(X, COMPUTE, WORDS, OP_T, NUMBERS, INTERNAL, UNSUPPORTED, INVALID)                                            \
    extern "C" int X##Create(P* h) { GUARD(X##Create, INTERNAL) *h = (P)0x3000; return 0; }                                  \
    extern "C" int X##MatmulDescCreate(P* d, int compute, int scale) { if (compute != COMPUTE || scale != 0) return UNSUPPORTED; *d = new Operation; return 0; } \
    extern "C" int X##MatmulDescDestroy(P d) { delete (Operation*)d; return 0; }                                             \
    extern "C" int X##MatmulDescSetAttribute(P d, int attribute, C value, size_t bytes) { return set_operation(d, attribute, value, bytes, NUMBERS) ? INVALID : 0; } \
    extern "C" int X##MatrixLayoutCreate(P* m, int type, uint64_t rows, uint64_t cols, int64_t stride) { return matrix(m, type, rows, cols, stride) ? INVALID : 0; } \
    extern "C" int X##MatrixLayoutDestroy(P m) { delete (Matrix*)m; return 0; }                                              \
    extern "C" int X##MatmulPreferenceCreate(P* p) { *p = new Preference; return 0; }                                        \
    extern "C" int X##MatmulPreferenceDestroy(P p) { delete (Preference*)p; return 0; }                                      \
    extern "C" int X##MatmulPreferenceSetAttribute(P p, int attribute, C value, size_t bytes) {                              \
        auto* q = (Preference*)p;                                                                                            \
        if (attribute == 1 && bytes == 8) memcpy(&q->workspace, value, 8);                                                   \
        else if (WORDS == 8 && attribute >= 5 && attribute <= 8 && bytes == 4) memcpy(&q->alignment[attribute - 5], value, 4); \
        else if (WORDS != 8 || attribute != 3) return INVALID;                                                               \
        return 0;                                                                                                            \
    }                                                                                                                        \
    extern "C" int X##MatmulAlgoGetHeuristic(P, P operation, P a, P b, P c, P d, P preference, int, uint64_t* result, int* found) { \
        GUARD(X##MatmulAlgoGetHeuristic, INTERNAL)                                                                           \
        return heuristic(operation, a, b, c, d, preference, result, WORDS, OP_T, found) ? INVALID : 0;                       \
    }                                                                                                                        \
    extern "C" int X##Matmul(P, P operation, C alpha, C a, P ma, C b, P mb, C beta, C, P, P d, P md, const uint64_t* algo, P workspace, size_t bytes, P stream) { \
        GUARD(X##Matmul, INTERNAL)                                                                                           \
        return product(operation, alpha, a, ma, b, mb, beta, d, md, algo, workspace, bytes, stream) ? INVALID : 0;           \
    }
#define GUARD(name, internal) std::lock_guard<std::recursive_mutex> guard(lock()); if (enter(#name)) return internal;
LIBRARY(cublasLt, 68, 8, 1, CUDA_NUMBERS, 14, 15, 7)
LIBRARY(hipblasLt, 2, 3, 112, HIP_NUMBERS, 6, 7, 3)
extern "C" size_t cublasLtGetVersion() { return (size_t)number("STANDIN_CUBLASLT", 130000); }
