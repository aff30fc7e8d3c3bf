// Hopper's products (PTX wgmma, sm_90a alone): c[64 x 128] += a[64 x 16] * b[128 x 16]^T of f16 or bf16 by four warps, sums
// in f32, both operands in shared memory, which is read at some time between the call and the wait. In the emulation it
// is read as late as that allows, by the descriptor's own rules.
#ifndef PK_WGMMA_H
#define PK_WGMMA_H
#include "mma.h"

// A tile: rows of 64 elements (128 bytes), eight of them a pattern of 1024 bytes, at whose multiples tiles begin. In a
// row, pieces of 16 bytes change places with the row's number (128-byte swizzling), so that a column is in all banks.
enum { PK_TILE_COLUMNS = 64, PK_PATTERN = 1024 };
PK_DEV int pk_swizzled(int row, int piece) { return row * PK_TILE_COLUMNS + (piece ^ row % 8) * 8; }
template <class T> PK_DEV T* pk_tiles(T* memory) {
#if defined(PK_CUDA)
    const u32 at = (u32)__cvta_generic_to_shared(memory);
    return memory + (PK_PATTERN - at % PK_PATTERN) % PK_PATTERN / sizeof(T);
#else
    return memory + (PK_PATTERN - (u64)memory % PK_PATTERN) % PK_PATTERN / sizeof(T);
#endif
}

#if defined(PK_CUDA)
// A matrix descriptor: where it begins, 1024 bytes from pattern to pattern of rows, 128-byte swizzling. The other distance is
// not looked at, since 16 elements of a row never leave a pattern.
typedef u64 pk_matrix;
template <class T> PK_DEV pk_matrix pk_matrix_at(const T* p) {
    const u64 at = (u64)__cvta_generic_to_shared(p);
    return (at & 0x3ffffu) >> 4 | 1ull << 16 | (u64)(PK_PATTERN >> 4) << 32 | 1ull << 62;
}
// What threads wrote into shared memory becomes visible to products; then a barrier.
PK_DEV void pk_publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#elif defined(PK_EMU)
struct pk_matrix { u64 at; };
template <class T> PK_DEV pk_matrix pk_matrix_at(const T* p) { return {(u64)p}; }
// The 16-bit number in a row and column: the offset is added, then bits 7 to 9 of the address are put on bits 4 to 6.
PK_DEV u16 pk_matrix_get(pk_matrix m, int row, int column) {
    const u64 at = m.at + row / 8 * PK_PATTERN + row % 8 * 128 + column * 2;
    return *(const u16*)(at ^ (at >> 7 & 7) << 4);
}
PK_DEV void pk_publish() {}
#endif

// A thread's 64 of the 64 x 128 sums, and their products: `begin`, some `times`, `commit`; `wait<N>` until all but N such
// groups are done.
template <class T> struct pk_wgmma;
#define PK_EIGHT(v, i) "+f"(v[i]), "+f"(v[i + 1]), "+f"(v[i + 2]), "+f"(v[i + 3]), "+f"(v[i + 4]), "+f"(v[i + 5]), "+f"(v[i + 6]), "+f"(v[i + 7])
#define PK_WGMMA_OF(T, NAME)                                                                                            \
    template <> struct pk_wgmma<T> {                                                                                    \
        float v[64];                                                                                                    \
        PK_DEV_M void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }                               \
        PK_DEV_M void times(pk_matrix a, pk_matrix b) {                                                                 \
            asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " {"                              \
                "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,"  \
                "%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,"    \
                "%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, 1, 1, 1, 0, 0;"                                 \
                : PK_EIGHT(v, 0), PK_EIGHT(v, 8), PK_EIGHT(v, 16), PK_EIGHT(v, 24), PK_EIGHT(v, 32), PK_EIGHT(v, 40),    \
                  PK_EIGHT(v, 48), PK_EIGHT(v, 56)                                                                       \
                : "l"(a), "l"(b) : "memory");                                                                           \
        }                                                                                                               \
        PK_DEV_M void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }                       \
        template <int LEFT> PK_DEV_M void wait() {                                                                      \
            asm volatile("wgmma.wait_group.sync.aligned %8;" : PK_EIGHT(v, 0) : "n"(LEFT) : "memory");                  \
            for (int i = 8; i < 64; ++i) asm volatile("" : "+f"(v[i])::"memory");                                       \
        }                                                                                                               \
    }
#if defined(PK_CUDA)
PK_WGMMA_OF(f16, "f16");
PK_WGMMA_OF(bf16, "bf16");
#elif defined(PK_EMU)
template <class T> struct pk_wgmma {
    float v[64];
    struct { pk_matrix a, b; } waiting[16];
    int asked = 0, ends[4], groups = 0;
    void begin() {}
    void times(pk_matrix a, pk_matrix b) { waiting[asked++] = {a, b}; }
    void commit() { ends[groups++] = asked; }
    template <int LEFT> void wait() {
        for (; groups > LEFT; groups--) {
            const int done = ends[0];
            for (int p = 0; p < done; p++)
                for (int j = 0; j < 64; j++) {
                    double sum = v[j];
                    for (int k = 0; k < 16; k++)
                        sum += (double)pk_load(T{pk_matrix_get(waiting[p].a, row(j), k)}) * pk_load(T{pk_matrix_get(waiting[p].b, column(j), k)});
                    v[j] = (float)sum;
                }
            for (int p = done; p < asked; p++) waiting[p - done] = waiting[p];
            for (int g = 1; g < groups; g++) ends[g - 1] = ends[g] - done;
            asked -= done;
        }
    }
    static int row(int j) { return (int)threadIdx.x % 128 / 32 * 16 + pk_mma_row((int)threadIdx.x % 32, j % 4); }
    static int column(int j) { return j / 4 * 8 + pk_mma_column((int)threadIdx.x % 32, j % 4); }
};
#endif
#endif
