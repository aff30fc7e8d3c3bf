// Reductions over a warp and over a block. A block is a multiple of PK_WARP threads, at most 1024.
#ifndef PK_REDUCE_H
#define PK_REDUCE_H
#include "pk.h"

enum { PK_LANES = PK_WARP, PK_WARPS = 1024 / PK_WARP };

struct pk_sum {
    template <class T> static PK_DEV_M T of(T a, T b) { return a + b; }
    static PK_DEV_M float none(float) { return 0.f; }
    static PK_DEV_M u64 none(u64) { return 0; }
    static PK_DEV_M u32 none(u32) { return 0; }
};
// A NaN is kept.
struct pk_largest {
    static PK_DEV_M float of(float a, float b) { return a != a ? a : b != b ? b : a > b ? a : b; }
    static PK_DEV_M float none(float) { return -pk_infinity(); }
};
// Of magnitudes.
struct pk_widest {
    static PK_DEV_M float of(float a, float b) { return pk_largest::of(a, b); }
    static PK_DEV_M float none(float) { return 0.f; }
};

template <class R, class T> PK_DEV T pk_warp_reduce(T v) {
#pragma unroll
    for (int m = PK_WARP / 2; m > 0; m >>= 1) v = R::of(v, pk_shfl_xor(v, m));
    return v;
}

// Every thread gets the result; `scratch` holds PK_WARPS values and may be used again at once.
template <class R, class T> PK_DEV T pk_block_reduce(T v, T* scratch) {
    const int lane = threadIdx.x % PK_WARP, warp = threadIdx.x / PK_WARP, warps = blockDim.x / PK_WARP;
    v = pk_warp_reduce<R>(v);
    if (lane == 0) scratch[warp] = v;
    PK_SYNC();
    v = lane < warps ? scratch[lane] : R::none(v);
    v = pk_warp_reduce<R>(v);
    PK_SYNC();
    return v;
}
#endif
