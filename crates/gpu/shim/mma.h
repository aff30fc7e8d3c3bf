// Tensor cores: c[16 x 8] += a[16 x 16] * b[16 x 8] of f16 or bf16, sums in f32, by one warp of 32 (PTX mma.m16n8k16, sm_80
// and later), and asynchronous copies into shared memory. The emulation computes the same from the same registers.
#ifndef PK_MMA_H
#define PK_MMA_H
#include "types.h"

#if defined(PK_CUDA)
PK_DEV void pk_async_copy16(void* to, const void* from) {
    const u32 shared = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
}
PK_DEV void pk_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> PK_DEV void pk_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }
#endif

// Eight elements into shared memory, of which there are `left`; the others are 0. They may travel as the copies above do.
template <class T> PK_DEV void pk_bring8(T* to, const T* from, i64 left, bool aligned) {
    if (aligned && left >= 8) pk_async_copy16(to, from);
    else
        for (int j = 0; j < 8; ++j) to[j] = j < left ? from[j] : pk_to<T>::of(0.f);
}

// Row and column of the j-th of a lane's four sums.
PK_DEV int pk_mma_row(int lane, int j) { return lane / 4 + j / 2 * 8; }
PK_DEV int pk_mma_column(int lane, int j) { return lane % 4 * 2 + j % 2; }

// A lane's part of a 16 x 16 tile whose rows lie `row` elements apart in shared memory: pairs of neighbours in k.
template <class T> PK_DEV void pk_mma_a(u32* p, const T* tile, int row) {
    const int lane = threadIdx.x % 32, r = lane / 4, c = lane % 4 * 2;
    p[0] = *(const u32*)(tile + r * row + c);
    p[1] = *(const u32*)(tile + (r + 8) * row + c);
    p[2] = *(const u32*)(tile + r * row + c + 8);
    p[3] = *(const u32*)(tile + (r + 8) * row + c + 8);
}
// The same of a tile of 8 rows, which are the columns of b.
template <class T> PK_DEV void pk_mma_b(u32* q, const T* tile, int row) {
    const int lane = threadIdx.x % 32, n = lane / 4, c = lane % 4 * 2;
    q[0] = *(const u32*)(tile + n * row + c);
    q[1] = *(const u32*)(tile + n * row + c + 8);
}
// The same of 16 rows that are k, whose columns are the columns of b: neighbours in k lie a row apart.
template <class T> PK_DEV void pk_mma_b_transposed(u32* q, const T* tile, int row) {
    const int lane = threadIdx.x % 32;
#if defined(PK_CUDA)
    const u32 shared = (u32)__cvta_generic_to_shared(tile + lane % 16 * row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(q[0]), "=r"(q[1]) : "r"(shared) : "memory");
#else
    const int n = lane / 4, k = lane % 4 * 2;
    q[0] = (u32)tile[k * row + n].x | (u32)tile[(k + 1) * row + n].x << 16;
    q[1] = (u32)tile[(k + 8) * row + n].x | (u32)tile[(k + 9) * row + n].x << 16;
#endif
}
template <class T> PK_DEV u32 pk_pair(T low, T high) { return (u32)low.x | (u32)high.x << 16; }

template <class T> struct pk_mma_of;
#if defined(PK_CUDA)
#define PK_MMA_OF(T, NAME)                                                                                              \
    template <> struct pk_mma_of<T> {                                                                                   \
        static PK_DEV_M void run(float* c, const u32* a, const u32* b) {                                                \
            asm("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                        \
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                    \
        }                                                                                                               \
    }
PK_MMA_OF(f16, "f16");
PK_MMA_OF(bf16, "bf16");
#elif defined(PK_EMU)
template <class T> struct pk_mma_of {
    static float half(unsigned long long words, int which) { return pk_load(T{(u16)(words >> 16 * which)}); }
    static void run(float* c, const u32* a, const u32* b, int line = __builtin_LINE()) {
        const unsigned long long mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
        unsigned long long all[32 * 6];
        pk_me()->api->gather(mine, 6, all, line);
        const int lane = (int)pk_me()->lane;
        for (int j = 0; j < 4; j++) {
            const int row = pk_mma_row(lane, j), column = pk_mma_column(lane, j);
            double sum = c[j];
            for (int k = 0; k < 16; k++) {
                // Who holds a[row][k] and b[k][column], and where.
                const unsigned long long* of_a = all + (row % 8 * 4 + k % 8 / 2) * 6;
                const unsigned long long* of_b = all + (column * 4 + k % 8 / 2) * 6;
                sum += (double)half(of_a[row / 8 + k / 8 * 2], k % 2) * half(of_b[4 + k / 8], k % 2);
            }
            c[j] = (float)sum;
        }
    }
};
#endif
template <class T> PK_DEV void pk_mma(float* c, const u32* a, const u32* b) { pk_mma_of<T>::run(c, a, b); }
#endif
