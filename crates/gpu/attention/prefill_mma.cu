// The same as prefill.cu for f16 or bf16 on tensor cores: a block takes 64 pairs of a row and a head, 16 a warp, and goes
// over the tokens in turns of 32 (16 for large heads) while the next ones travel. Weights are multiplied in two halves, the rounded one and
// what the rounding left, so that the result is as exact as with weights in f32.
#include "attention.h"
#include "mma.h"
#include "spans.h"
typedef pk_type<PK_T>::type T;
enum { DIM = PK_DIM, THREADS = 128, ROWS = 64, TOKENS = DIM <= 128 ? 32 : 16, LINE = DIM + 8, CHUNK = 8, TILE = TOKENS * LINE, IN_REGISTERS = DIM <= 128 };

struct pk_tiles {
    const T *keys, *values;
    pk_cache kc, vc;
    i64 block_size, kv_head;
    bool aligned;
};

// Which blocks the tokens of a turn lie in; -1 where nothing is seen.
PK_DEV void find_places(const pk_call& call, i64* place, i64 first, i64 to, const void* table, int type, i64 stride, i64 blocks, i64 block_size, const pk_span& span, const pk_options& options, i64 group, const u8* mask, i64 mask_base) {
    if (threadIdx.x < TOKENS) {
        const i64 token = first + threadIdx.x;
        place[threadIdx.x] = token < to && pk_anyone_sees(mask, mask_base, span, token, options, group) ? pk_block(call, table, type, span.sequence * stride + token / block_size, blocks) : -1;
    }
}

// Keys and values of a turn into shared memory, 16 bytes a thread and step; tokens without a place are 0.
PK_DEV void load_turn(T* keys, T* values, const i64* place, i64 first, const pk_tiles& t) {
    for (int piece = threadIdx.x; piece < 2 * TOKENS * (DIM / CHUNK); piece += THREADS) {
        const int which = piece / (TOKENS * (DIM / CHUNK)), rest = piece % (TOKENS * (DIM / CHUNK)), at = rest / (DIM / CHUNK), d = rest % (DIM / CHUNK) * CHUNK;
        const pk_cache& c = which ? t.vc : t.kc;
        T* to = (which ? values : keys) + at * LINE + d;
        const T* from = (which ? t.values : t.keys) + place[at] * c.block + (first + at) % t.block_size * c.token + t.kv_head * c.head + d;
        if (place[at] >= 0 && t.aligned) pk_async_copy16(to, from);
        else
            for (int j = 0; j < CHUNK; ++j) to[j] = place[at] >= 0 ? from[j] : pk_to<T>::of(0.f);
    }
}

// One row by one warp in f32, token by token: for rows near values that are no numbers, which a product with a weight of
// 0 would let through.
PK_DEV void exact_row(const pk_call& call, const T* q, const pk_tiles& t, const void* table, int table_type, i64 table_row, i64 blocks, i64 from, i64 to, const u8* mask, const pk_options& options, float sink, T* out, float* lse) {
    enum { OWN = (DIM + PK_WARP - 1) / PK_WARP };
    const int lane = threadIdx.x % PK_WARP;
    float most = -pk_infinity(), total = 0.f, sums[OWN];
    for (int d = 0; d < OWN; ++d) sums[d] = 0.f;
    for (i64 token = from; token < to; ++token) {
        if (mask && mask[token] == 0) continue;
        const i64 block = pk_block(call, table, table_type, table_row + token / t.block_size, blocks);
        if (block < 0) continue;
        const T* k = t.keys + block * t.kc.block + token % t.block_size * t.kc.token + t.kv_head * t.kc.head;
        const T* v = t.values + block * t.vc.block + token % t.block_size * t.vc.token + t.kv_head * t.vc.head;
        float dot = 0.f;
        for (int d = lane; d < DIM; d += PK_WARP) dot += pk_load(q[d]) * pk_load(k[d]);
        const float score = pk_score(pk_warp_reduce<pk_sum>(dot), options), largest = pk_largest::of(most, score);
        const float factor = pk_weight(most, largest), w = pk_weight(score, largest);
        total = total * factor + w;
        most = largest;
        for (int d = 0; d < OWN; ++d)
            if (d * PK_WARP + lane < DIM) sums[d] = sums[d] * factor + w * pk_load(v[d * PK_WARP + lane]);
    }
    const pk_end end = pk_end_of(most, total, sink);
    for (int d = 0; d < OWN; ++d)
        if (d * PK_WARP + lane < DIM) out[d * PK_WARP + lane] = pk_to<T>::of(pk_result(sums[d], end, options.v_scale));
    if (lse && lane == 0) *lse = end.lse;
}

PK_KERNEL(prefill_mma, 128, pk_call call, const T* PK_RESTRICT q, i64 q_token, i64 q_head, const T* PK_RESTRICT keys, pk_cache kc, const T* PK_RESTRICT values, pk_cache vc, const void* table, int table_type, i64 table_stride, const void* lens, int lens_type, const void* offsets, int offsets_type, const u8* mask, const void* mask_offsets, int mask_type, i64 mask_length, const float* sinks, T* PK_RESTRICT out, i64 out_token, i64 out_head, float* PK_RESTRICT lse, i64 lse_token, i64 blocks, i64 block_size, i64 room, i64 rows, i64 batch, i64 heads, i64 kv_heads, pk_options options) {
    PK_ENTER(call);
    PK_DYN_SHARED(T, memory); // two turns of keys and values, and the queries where registers cannot hold them
    PK_SHARED(i64, place, [2][TOKENS]);
    PK_SHARED(pk_span, shared_span, [1]);
    const i64 group = heads / kv_heads, kv_head = blockIdx.y;
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;

    if (tid == 0) shared_span[0] = pk_span_of(call, offsets, offsets_type, lens, lens_type, batch, rows, group, ROWS, blockIdx.x, room);
    if (tid == 32 && blockIdx.x == 0 && blockIdx.y == 0) pk_check_idle(call, offsets, offsets_type, lens, lens_type, batch, room, mask, mask_offsets, mask_type, mask_length);
    PK_SYNC();
    const pk_span span = shared_span[0];
    if (span.pairs <= 0) return;
    const i64 mask_base = mask ? pk_mask_base(call, mask_offsets, mask_type, span, mask_length) : 0;
    const bool aligned = pk_aligned(keys) && pk_aligned(values) && (kc.block | kc.token | kc.head | vc.block | vc.token | vc.head) % CHUNK == 0;
    const pk_tiles tiles = {keys, values, kc, vc, block_size, kv_head, aligned};
    auto key_tile = [&](int turn) { return memory + 2 * turn * TILE; };
    auto value_tile = [&](int turn) { return memory + (2 * turn + 1) * TILE; };

    // Queries: of a lane's two rows in a warp's sixteen, as the products want them.
    auto query = [&](int r, int d) {
        const i64 pair = span.first_pair + r;
        return r < span.pairs ? q[(span.first_row + pair / group) * q_token + (kv_head * group + pair % group) * q_head + d] : pk_to<T>::of(0.f);
    };
    T* queries = memory + 4 * TILE;
    u32 fragments[IN_REGISTERS ? DIM / 16 : 1][4];
    if (IN_REGISTERS) {
#pragma unroll
        for (int i = 0; i < DIM / 16; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int r = warp * 16 + lane / 4 + j % 2 * 8, d = i * 16 + lane % 4 * 2 + j / 2 * 8;
                fragments[IN_REGISTERS ? i : 0][j] = pk_pair(query(r, d), query(r, d + 1));
            }
    } else
        for (int n = tid; n < ROWS * DIM; n += THREADS) queries[n / DIM * LINE + n % DIM] = query(n / DIM, n % DIM);

    // Of both rows: what they see, and what was summed.
    i64 of_row[2], seen_from[2], seen_to[2];
    float most[2], total[2], sums[DIM / 8][4];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int r = warp * 16 + lane / 4 + h * 8;
        of_row[h] = (span.first_pair + r) / group;
        seen_from[h] = pk_seen_from(span, of_row[h], options.window);
        seen_to[h] = r < span.pairs && mask_base >= 0 ? pk_seen_to(span, of_row[h], options.causal) : 0;
        most[h] = -pk_infinity();
        total[h] = 0.f;
    }
#pragma unroll
    for (int n = 0; n < DIM / 8; ++n)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[n][j] = 0.f;

    const i64 last = span.first_pair + span.pairs - 1;
    const i64 from = pk_seen_from(span, span.first_pair / group, options.window), to = mask_base >= 0 ? pk_seen_to(span, last / group, options.causal) : 0;
    find_places(call, place[0], from, to, table, table_type, table_stride, blocks, block_size, span, options, group, mask, mask_base);
    PK_SYNC();
    if (from < to) load_turn(key_tile(0), value_tile(0), place[0], from, tiles);
    pk_async_commit();
    int now = 0;
    for (i64 first = from; first < to; first += TOKENS, now ^= 1) {
        find_places(call, place[now ^ 1], first + TOKENS, to, table, table_type, table_stride, blocks, block_size, span, options, group, mask, mask_base);
        PK_SYNC();
        if (first + TOKENS < to) load_turn(key_tile(now ^ 1), value_tile(now ^ 1), place[now ^ 1], first + TOKENS, tiles);
        pk_async_commit();
        pk_async_wait<1>();
        PK_SYNC();
        float scores[TOKENS / 8][4];
#pragma unroll
        for (int n = 0; n < TOKENS / 8; ++n)
#pragma unroll
            for (int j = 0; j < 4; ++j) scores[n][j] = 0.f;
#pragma unroll
        for (int i = 0; i < DIM / 16; ++i) {
            u32 a[4], b[2];
            if (IN_REGISTERS)
#pragma unroll
                for (int j = 0; j < 4; ++j) a[j] = fragments[IN_REGISTERS ? i : 0][j];
            else pk_mma_a(a, queries + warp * 16 * LINE + i * 16, LINE);
#pragma unroll
            for (int n = 0; n < TOKENS / 8; ++n) {
                pk_mma_b(b, key_tile(now) + n * 8 * LINE + i * 16, LINE);
                pk_mma<T>(scores[n], a, b);
            }
        }
        float largest[2] = {most[0], most[1]};
        u32 seen = 0; // a bit for each score
#pragma unroll
        for (int n = 0; n < TOKENS / 8; ++n)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int h = j / 2, at = n * 8 + pk_mma_column(lane, j);
                const i64 token = first + at;
                const bool sees = token >= seen_from[h] && token < seen_to[h] && place[now][at] >= 0 && (!mask || mask[mask_base + of_row[h] * span.kv_len + token] != 0);
                scores[n][j] = pk_score(scores[n][j], options);
                if (sees) {
                    seen |= 1u << (n * 4 + j);
                    largest[h] = pk_largest::of(largest[h], scores[n][j]);
                }
            }
        float factor[2], added[2] = {0.f, 0.f};
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            largest[h] = pk_largest::of(largest[h], pk_shfl_xor(largest[h], 1));
            largest[h] = pk_largest::of(largest[h], pk_shfl_xor(largest[h], 2));
            factor[h] = pk_weight(most[h], largest[h]);
            most[h] = largest[h];
        }
#pragma unroll
        for (int n = 0; n < TOKENS / 8; ++n)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                scores[n][j] = seen >> (n * 4 + j) & 1u ? pk_weight(scores[n][j], most[j / 2]) : 0.f;
                added[j / 2] += scores[n][j];
            }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            added[h] += pk_shfl_xor(added[h], 1);
            added[h] += pk_shfl_xor(added[h], 2);
            total[h] = total[h] * factor[h] + added[h];
        }
#pragma unroll
        for (int n = 0; n < DIM / 8; ++n)
#pragma unroll
            for (int j = 0; j < 4; ++j) sums[n][j] *= factor[j / 2];
#pragma unroll
        for (int i = 0; i < TOKENS / 16; ++i) {
            u32 high[4], low[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float u = scores[2 * i + j / 2][j % 2 * 2], v = scores[2 * i + j / 2][j % 2 * 2 + 1];
                const T x = pk_to<T>::of(u), y = pk_to<T>::of(v);
                high[j] = pk_pair(x, y);
                low[j] = pk_pair(pk_to<T>::of(u - pk_load(x)), pk_to<T>::of(v - pk_load(y)));
            }
#pragma unroll
            for (int n = 0; n < DIM / 8; ++n) {
                u32 b[2];
                pk_mma_b_transposed(b, value_tile(now) + i * 16 * LINE + n * 8, LINE);
                pk_mma<T>(sums[n], high, b);
                pk_mma<T>(sums[n], low, b);
            }
        }
        PK_SYNC();
    }
    pk_async_wait<0>();
    // A row whose sums are no numbers, of which any lane may have seen it first, is done again without shortcuts.
    u32 wrong[2] = {0, 0};
#pragma unroll
    for (int n = 0; n < DIM / 8; ++n)
#pragma unroll
        for (int j = 0; j < 4; ++j) wrong[j / 2] |= fabsf(sums[n][j]) < pk_infinity() ? 0u : 1u;
    const u64 upper = pk_ballot(wrong[0] != 0), lower = pk_ballot(wrong[1] != 0);
    for (int r = 0; r < 16; ++r) {
        if (((r < 8 ? upper : lower) >> (r % 8 * 4) & 15u) == 0) continue;
        const i64 pair = span.first_pair + warp * 16 + r, i = pair / group, head = kv_head * group + pair % group, row = span.first_row + i;
        if (warp * 16 + r < span.pairs && mask_base >= 0)
            exact_row(call, q + row * q_token + head * q_head, tiles, table, table_type, span.sequence * table_stride, blocks, pk_seen_from(span, i, options.window), pk_seen_to(span, i, options.causal), mask ? mask + mask_base + i * span.kv_len : mask, options, sinks ? sinks[head] : -pk_infinity(), out + row * out_token + head * out_head, lse ? lse + row * lse_token + head : lse);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int r = warp * 16 + lane / 4 + h * 8;
        if (r >= span.pairs || ((h ? lower : upper) >> (lane / 4 * 4) & 15u) != 0) continue;
        const i64 pair = span.first_pair + r, head = kv_head * group + pair % group, row = span.first_row + pair / group;
        const pk_end end = pk_end_of(most[h], total[h], sinks ? sinks[head] : -pk_infinity());
        T* o = out + row * out_token + head * out_head;
#pragma unroll
        for (int n = 0; n < DIM / 8; ++n)
#pragma unroll
            for (int j = 0; j < 2; ++j) o[n * 8 + pk_mma_column(lane, j)] = pk_to<T>::of(pk_result(sums[n][h * 2 + j], end, options.v_scale));
        if (lse && lane % 4 == 0) lse[row * lse_token + head] = end.lse;
    }
}
