// One token of each row of logits, one block a row: the largest at temperature 0, else a draw from what top-k, top-p and
// min-p keep. Nothing is sorted: cuts are found by the bits of the keys.
#include "rows.h"
typedef pk_type<PK_T>::type T;

struct pk_best {
    static PK_DEV_M u64 of(u64 a, u64 b) { return a > b ? a : b; }
    static PK_DEV_M u64 none(u64) { return 0; }
};

// The uniform number of a row: SplitMix64 (kernels-ops, sampling::uniform).
PK_DEV double uniform(u64 seed, u64 row) {
    u64 z = (seed ^ row * 0xD1B54A32D192ED03ull) + 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    return (double)(z >> 11) * (1.0 / 9007199254740992.0);
}

PK_KERNEL(sample, 1024, pk_call call, const T* PK_RESTRICT logits, i64 stride, int* PK_RESTRICT ids, i64 rows, i64 cols, float temperature, i64 top_k, float top_p, float min_p, u64 seed, float unit) {
    PK_ENTER(call);
    PK_SHARED(pk_row_scratch, scratch, [1]);
    pk_row_scratch& s = scratch[0];
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const T* x = logits + row * stride;
        // The largest, lowest index first; a NaN shows as a count.
        u64 best = 0, nans = 0;
        for (i64 i = threadIdx.x; i < cols; i += blockDim.x) {
            const float v = pk_load(x[i]);
            nans += v != v;
            best = pk_best::of(best, (u64)pk_key(v) << 32 | (0xffffffffu - (u32)i));
        }
        nans = pk_block_reduce<pk_sum>(nans, s.sums);
        best = pk_block_reduce<pk_best>(best, s.sums);
        const float most = pk_of_key((u32)(best >> 32));
        if (nans || fabsf(most) == pk_infinity()) {
            if (threadIdx.x == 0) {
                pk_fault(call, row, PK_NAN_ROW);
                ids[row] = -1;
            }
            continue;
        }
        if (temperature == 0.f) {
            if (threadIdx.x == 0) ids[row] = (int)(0xffffffffu - (u32)best);
            continue;
        }
        auto key_of = [&](i64 i) { return pk_key(pk_load(x[i])); };
        auto weight = [&](float v) { return expf((v - most) / temperature); };
        auto mass = [&](float w) { return (u64)(w * unit); };
        pk_cut cut = {0, ~0ull};
        if (top_k > 0 && top_k < cols)
            cut = pk_reach([&](i64 i, u32& key) { key = key_of(i); return (u64)1; }, cols, (u64)top_k, s);
        if (top_p < 1.f) {
            u64 above = 0;
            for (i64 i = threadIdx.x; i < cols; i += blockDim.x)
                if (key_of(i) > cut.key) above += mass(weight(pk_load(x[i])));
            above = pk_block_reduce<pk_sum>(above, s.sums);
            const u64 each = cut.key ? mass(weight(pk_of_key(cut.key))) : 0;
            const u64 at_cut = cut.key ? each * cut.ties : 0;
            const double wanted = (double)top_p * (double)(above + at_cut);
            u64 target = (u64)wanted;
            if ((double)target < wanted || target == 0) ++target;
            if (target <= above) {
                const u32 floor = cut.key;
                cut = pk_reach([&](i64 i, u32& key) { key = key_of(i); return key > floor ? mass(weight(pk_load(x[i]))) : (u64)0; }, cols, target, s);
            } else if (each) {
                const u64 needed = (target - above + each - 1) / each;
                cut.ties = needed < cut.ties ? needed : cut.ties;
            }
        }
        auto adds = [&](i64 i, bool kept) {
            if (!kept) return (u64)0;
            const float w = weight(pk_load(x[i]));
            return w >= min_p ? mass(w) : (u64)0;
        };
        u64 mine = 0;
        pk_visit(key_of, cols, cut, s, [&](i64 i, bool kept) { mine += adds(i, kept); });
        mine = pk_warp_reduce<pk_sum>(mine);
        const int warp = threadIdx.x / PK_WARP, lane = threadIdx.x % PK_WARP, warps = blockDim.x / PK_WARP;
        PK_SYNC();
        if (lane == 0) s.sums[warp] = mine;
        PK_SYNC();
        u64 before = 0, total = 0;
        for (int w = 0; w < warps; ++w) {
            if (w < warp) before += s.sums[w];
            total += s.sums[w];
        }
        PK_SYNC();
        const u64 target = (u64)((double)total * uniform(seed, (u64)row));
        // The first at which the running sum exceeds the target: in one warp's run.
        u64 sum = before;
        pk_visit(key_of, cols, cut, s, [&](i64 i, bool kept) {
            const u64 here = adds(i, kept);
            u64 upto = here;
            for (int d = 1; d < PK_WARP; d <<= 1) {
                const u64 other = pk_shfl_up(upto, d);
                if (lane >= d) upto += other;
            }
            if (sum + upto > target && sum + upto - here <= target) ids[row] = (int)i;
            sum += pk_shfl(upto, PK_WARP - 1);
        });
        PK_SYNC();
    }
}
