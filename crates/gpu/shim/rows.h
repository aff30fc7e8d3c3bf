// Rows of a vocabulary: which entries are kept. Entries are ordered by a key, largest first, equals by lower index; sums are
// of fixed-point numbers, so that they do not depend on who adds first.
#ifndef PK_ROWS_H
#define PK_ROWS_H
#include "types.h"
#include "reduce.h"

// A number as a word of the same order; -0 counts as 0.
PK_DEV u32 pk_key(float x) {
    const u32 u = __float_as_uint(x == 0.f ? 0.f : x);
    return u >> 31 ? ~u : u | 0x80000000u;
}
PK_DEV float pk_of_key(u32 k) { return __uint_as_float(k >> 31 ? k & 0x7fffffffu : ~k); }

// Keys above `key`, and the first `ties` of those equal to it.
struct pk_cut {
    u32 key;
    u64 ties;
};

struct pk_row_scratch {
    u64 bins[8][256]; // copies, so that fewer threads wait for one another
    u64 sums[PK_WARPS];
    float floats[PK_WARPS];
    u64 found[2]; // what is left to reach, the bin
};

// The cut at which sums from the largest key on first reach `target` (1 or more, at most the sum of all). `entry(i, key)`
// gives an entry's key, and what it adds: 0 where it does not count. Entries of one key add the same.
template <class F> PK_DEV pk_cut pk_reach(F entry, i64 count, u64 target, pk_row_scratch& s) {
    u32 prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = threadIdx.x; i < 8 * 256; i += blockDim.x) s.bins[i / 256][i % 256] = 0;
        PK_SYNC();
        u64* mine = s.bins[threadIdx.x / PK_WARP % 8];
        for (i64 i = threadIdx.x; i < count; i += blockDim.x) {
            u32 key;
            const u64 adds = entry(i, key);
            if (adds && (shift == 24 || key >> (shift + 8) == prefix >> (shift + 8))) atomicAdd(&mine[key >> shift & 255u], adds);
        }
        PK_SYNC();
        if (threadIdx.x < PK_WARP) {
            enum { EACH = 256 / PK_WARP };
            const int top = 255 - (int)threadIdx.x * EACH;
            u64 here = 0;
            for (int j = 0; j < EACH; ++j)
                for (int c = 0; c < 8; ++c) here += s.bins[c][top - j];
            u64 before = here; // an inclusive sum, and then what lies above
            for (int d = 1; d < PK_WARP; d <<= 1) {
                const u64 other = pk_shfl_up(before, d);
                if ((int)threadIdx.x >= d) before += other;
            }
            before -= here;
            if (before < target && target <= before + here)
                for (int j = 0; j < EACH; ++j) {
                    u64 bin = 0;
                    for (int c = 0; c < 8; ++c) bin += s.bins[c][top - j];
                    if (target <= before + bin) {
                        s.found[0] = target - before;
                        s.found[1] = (u64)(top - j);
                        break;
                    }
                    before += bin;
                }
        }
        PK_SYNC();
        target = s.found[0];
        prefix |= (u32)s.found[1] << shift;
        PK_SYNC();
    }
    // What one entry of this key adds, from any of them.
    for (i64 i = threadIdx.x; i < count; i += blockDim.x) {
        u32 key;
        const u64 adds = entry(i, key);
        if (adds && key == prefix) s.found[0] = adds;
    }
    PK_SYNC();
    const u64 each = s.found[0];
    PK_SYNC();
    return pk_cut{prefix, (target + each - 1) / each};
}

// Goes over the kept entries in order, each warp over a run of its own. `visit(i, kept)` is called by all lanes together;
// `i` is -1 for a lane without an entry.
template <class K, class V> PK_DEV void pk_visit(K key_of, i64 count, pk_cut cut, pk_row_scratch& s, V visit) {
    const int warp = threadIdx.x / PK_WARP, lane = threadIdx.x % PK_WARP, warps = blockDim.x / PK_WARP;
    const i64 run = (count + warps - 1) / warps, from = pk_min(warp * run, count), to = pk_min(from + run, count);
    const bool limited = cut.ties != ~0ull;
    u64 tie = 0;
    if (limited) { // ties in the runs before
        u64 mine = 0;
        for (i64 i = from + lane; i < to; i += PK_WARP) mine += key_of(i) == cut.key;
        mine = pk_warp_reduce<pk_sum>(mine);
        if (lane == 0) s.sums[warp] = mine;
        PK_SYNC();
        for (int w = 0; w < warp; ++w) tie += s.sums[w];
        PK_SYNC();
    }
    for (i64 first = from; first < to; first += PK_WARP) {
        const i64 i = first + lane;
        const u32 key = i < to ? key_of(i) : 0u;
        const bool equal = i < to && key == cut.key;
        u64 rank = tie;
        if (limited) {
            const u64 all = pk_ballot(equal);
            rank += pk_popcount(all & ((1ull << lane) - 1));
            tie += pk_popcount(all);
        }
        visit(i < to ? i : -1, i < to && (key > cut.key || (equal && (!limited || rank < cut.ties))));
    }
}
#endif
