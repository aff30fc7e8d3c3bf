// New tokens over the cached prefix and themselves, in f32, for any types and head_dim: a block takes ROWS pairs of a query
// row and one of the heads that share a key-value head, and goes over the tokens in turns of TOKENS, which it keeps in
// shared memory for all of them.
#include "attention.h"
#include "spans.h"
typedef pk_type<PK_T>::type T;
typedef pk_type<PK_C>::type C;
enum { DIM = PK_DIM, ROWS = DIM <= 256 ? 16 : 8, EIGHT = 8, THREADS = ROWS * EIGHT, TOKENS = DIM <= 128 ? 32 : DIM <= 256 ? 16 : 8, LINE = (DIM + 7) / 8 * 8 + 1, OWN = (DIM + 7) / 8 };

PK_KERNEL(prefill, 128, pk_call call, const T* PK_RESTRICT q, i64 q_token, i64 q_head, const C* PK_RESTRICT keys, pk_cache kc, const C* PK_RESTRICT values, pk_cache vc, const void* table, int table_type, i64 table_stride, const void* lens, int lens_type, const void* offsets, int offsets_type, const u8* mask, const void* mask_offsets, int mask_type, i64 mask_length, const float* sinks, T* PK_RESTRICT out, i64 out_token, i64 out_head, float* PK_RESTRICT lse, i64 lse_token, i64 blocks, i64 block_size, i64 room, i64 rows, i64 batch, i64 heads, i64 kv_heads, pk_options options) {
    PK_ENTER(call);
    PK_SHARED(float, query, [ROWS][LINE]);
    PK_SHARED(float, tile, [TOKENS][LINE]);
    PK_SHARED(float, weight, [ROWS][TOKENS + 1]); // below 0 where a row does not see the token
    PK_SHARED(i64, place, [TOKENS]);
    PK_SHARED(pk_span, shared_span, [1]);
    const i64 group = heads / kv_heads, kv_head = blockIdx.y;
    const int tid = threadIdx.x, r = tid / EIGHT, c = tid % EIGHT; // a row, and a place in it

    if (tid == 0) shared_span[0] = pk_span_of(call, offsets, offsets_type, lens, lens_type, batch, rows, group, ROWS, blockIdx.x, room);
    if (tid == 32 && blockIdx.x == 0 && blockIdx.y == 0) pk_check_idle(call, offsets, offsets_type, lens, lens_type, batch, room, mask, mask_offsets, mask_type, mask_length);
    PK_SYNC();
    const pk_span span = shared_span[0];
    if (span.pairs <= 0) return;
    const i64 mask_base = mask ? pk_mask_base(call, mask_offsets, mask_type, span, mask_length) : 0;

    // The pair of this thread: row i of the sequence, and a head.
    const i64 pair = span.first_pair + r, i = pair / group, head = kv_head * group + pair % group, row = span.first_row + i;
    const bool there = r < span.pairs;
    const i64 seen_from = pk_seen_from(span, i, options.window), seen_to = there && mask_base >= 0 ? pk_seen_to(span, i, options.causal) : 0;
    for (int n = tid; n < ROWS * LINE; n += THREADS) {
        const i64 p = span.first_pair + n / LINE;
        const int d = n % LINE;
        query[n / LINE][d] = n / LINE < span.pairs && d < DIM ? pk_load(q[(span.first_row + p / group) * q_token + (kv_head * group + p % group) * q_head + d]) : 0.f;
    }
    float most = -pk_infinity(), total = 0.f, sums[OWN];
#pragma unroll
    for (int d = 0; d < OWN; ++d) sums[d] = 0.f;

    const i64 last = span.first_pair + span.pairs - 1; // later rows see no less and start no earlier
    const i64 from = pk_seen_from(span, span.first_pair / group, options.window), to = mask_base >= 0 ? pk_seen_to(span, last / group, options.causal) : 0;
    for (i64 first = from; first < to; first += TOKENS) {
        PK_SYNC();
        if (tid < TOKENS) {
            const i64 token = first + tid;
            // Reported only where some row sees the token.
            place[tid] = token < to && pk_anyone_sees(mask, mask_base, span, token, options, group) ? pk_block(call, table, table_type, span.sequence * table_stride + token / block_size, blocks) : -1;
        }
        PK_SYNC();
        for (int n = tid; n < TOKENS * OWN; n += THREADS) {
            const int t = n / OWN, d = n % OWN * 8;
            float v[8];
            if (place[t] >= 0) {
                pk_head8<DIM>(keys + place[t] * kc.block + (first + t) % block_size * kc.token + kv_head * kc.head, d, v);
                for (int j = 0; j < 8; ++j) tile[t][d + j] = v[j];
            }
        }
        PK_SYNC();
        float scores[TOKENS / EIGHT], largest = most;
#pragma unroll
        for (int n = 0; n < TOKENS / EIGHT; ++n) {
            const int t = c + n * EIGHT;
            const i64 token = first + t;
            const bool sees = token >= seen_from && token < seen_to && place[t] >= 0 && (!mask || mask[mask_base + i * span.kv_len + token] != 0);
            float dot = 0.f;
            if (sees)
                for (int d = 0; d < DIM; ++d) dot += query[r][d] * tile[t][d];
            scores[n] = pk_score(dot, options);
            if (sees) largest = pk_largest::of(largest, scores[n]);
            weight[r][t] = sees ? 0.f : -1.f;
        }
#pragma unroll
        for (int m = EIGHT / 2; m > 0; m >>= 1) largest = pk_largest::of(largest, pk_shfl_xor(largest, m));
        float sum = 0.f;
#pragma unroll
        for (int n = 0; n < TOKENS / EIGHT; ++n) {
            const int t = c + n * EIGHT;
            if (weight[r][t] < 0.f) continue;
            weight[r][t] = pk_weight(scores[n], largest);
            sum += weight[r][t];
        }
#pragma unroll
        for (int m = EIGHT / 2; m > 0; m >>= 1) sum += pk_shfl_xor(sum, m);
        const float factor = pk_weight(most, largest);
        total = total * factor + sum;
        most = largest;
        PK_SYNC();
        for (int n = tid; n < TOKENS * OWN; n += THREADS) {
            const int t = n / OWN, d = n % OWN * 8;
            float v[8];
            if (place[t] >= 0) {
                pk_head8<DIM>(values + place[t] * vc.block + (first + t) % block_size * vc.token + kv_head * vc.head, d, v);
                for (int j = 0; j < 8; ++j) tile[t][d + j] = v[j];
            }
        }
        PK_SYNC();
#pragma unroll
        for (int d = 0; d < OWN; ++d) sums[d] *= factor;
        for (int t = 0; t < TOKENS; ++t) {
            const float w = weight[r][t];
            if (w < 0.f) continue;
#pragma unroll
            for (int d = 0; d < OWN; ++d) sums[d] += w * tile[t][d * EIGHT + c];
        }
    }
    if (!there) return;
    const pk_end end = pk_end_of(most, total, sinks ? sinks[head] : -pk_infinity());
    T* o = out + row * out_token + head * out_head;
#pragma unroll
    for (int d = 0; d < OWN; ++d)
        if (d * EIGHT + c < DIM) o[d * EIGHT + c] = pk_to<T>::of(pk_result(sums[d], end, options.v_scale));
    if (lse && c == 0) lse[row * lse_token + head] = end.lse;
}
