// Probabilities with the most probable entries of a row kept, over their sum: the first k (PK_TOP_K) or the shortest run
// that reaches p of the sum. One block a row.
#include "rows.h"

PK_KERNEL(renorm, 1024, pk_call call, const float* PK_RESTRICT probs, i64 stride, const void* parameter, int type, float* PK_RESTRICT out, i64 out_stride, i64 rows, i64 cols, double unit) {
    PK_ENTER(call);
    PK_SHARED(pk_row_scratch, scratch, [1]);
    pk_row_scratch& s = scratch[0];
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const float* x = probs + row * stride;
        float* o = out + row * out_stride;
        float most = 0.f, wrong = 0.f;
        for (i64 i = threadIdx.x; i < cols; i += blockDim.x) {
            most = x[i] > most ? x[i] : most;
            if (!(x[i] >= 0.f)) wrong = 1.f;
        }
        most = pk_block_reduce<pk_largest>(most, s.floats);
        wrong = pk_block_reduce<pk_sum>(wrong, s.floats);
        const bool endless = most == pk_infinity();
        // Of a row with an infinity, only infinities weigh.
        const double factor = unit / (double)(most > 0.f ? most : 1.f);
        auto mass = [&](float v) { return endless ? (u64)(v == most) : (u64)((double)v * factor); };
        auto key_of = [&](i64 i) { return pk_key(x[i]); };
        pk_cut cut = {0, ~0ull};
        bool none = false;
#if PK_TOP_K
        const i64 k = pk_index(parameter, type, row);
        if (k < 0) {
            if (threadIdx.x == 0) pk_fault(call, k, cols + 1);
            none = true;
        } else if (k > 0 && k < cols && wrong == 0.f)
            cut = pk_reach([&](i64 i, u32& key) { key = key_of(i); return (u64)1; }, cols, (u64)k, s);
#else
        const float p = ((const float*)parameter)[row];
        if (p != p) {
            if (threadIdx.x == 0) pk_fault(call, row, PK_NAN_ROW);
            none = true;
        } else if (p < 1.f && most > 0.f && wrong == 0.f) {
            u64 all = 0;
            for (i64 i = threadIdx.x; i < cols; i += blockDim.x) all += mass(x[i]);
            all = pk_block_reduce<pk_sum>(all, s.sums);
            // The first infinity reaches any share of an infinite sum.
            const double wanted = endless || p < 0.f ? 0.0 : (double)p * (double)all;
            u64 target = (u64)wanted;
            if ((double)target < wanted || target == 0) ++target;
            cut = pk_reach([&](i64 i, u32& key) { key = key_of(i); return mass(x[i]); }, cols, target < all ? target : all, s);
        }
#endif
        u64 sum = 0;
        if (!none) pk_visit(key_of, cols, cut, s, [&](i64 i, bool kept) { sum += kept ? mass(x[i]) : 0; });
        sum = pk_block_reduce<pk_sum>(sum, s.sums);
        const double total = (double)sum / factor;
        const float total_f = (float)total;
        if (wrong != 0.f || none || sum == 0) {
            const float v = wrong != 0.f ? pk_nan() : 0.f;
            for (i64 i = threadIdx.x; i < cols; i += blockDim.x) o[i] = v;
        } else
            pk_visit(key_of, cols, cut, s, [&](i64 i, bool kept) {
                if (i < 0) return;
                if (kept && endless) o[i] = x[i] == most ? pk_nan() : 0.f;
                else if (kept) o[i] = most > 1e30f ? (float)((double)x[i] / total) : x[i] / total_f;
                else o[i] = 0.f;
            });
        PK_SYNC();
    }
}
