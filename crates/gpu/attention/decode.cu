// One query token a sequence over its paged keys and values. A block takes PK_G query heads of one key-value head and one
// part of the tokens, so that keys and values are read once for all of these heads, 16 bytes or eight elements a lane:
// LANES lanes a token. Scores, weights and values go in turns of TOKENS; parts are joined by `combine`.
#include "attention.h"
typedef pk_type<PK_T>::type T;
typedef pk_type<PK_C>::type C;
enum {
    DIM = PK_DIM, G = PK_G, THREADS = 128, TOKENS = 64, CHUNKS = (DIM + 7) / 8,
    LANES = CHUNKS <= 1 ? 1 : CHUNKS <= 2 ? 2 : CHUNKS <= 4 ? 4 : CHUNKS <= 8 ? 8 : CHUNKS <= 16 ? 16 : 32,
    TURNS = (CHUNKS + LANES - 1) / LANES, // chunks of a lane
    AT_ONCE = THREADS / LANES             // tokens of one pass
};

PK_KERNEL_OF(decode, 128, 3, pk_call call, const T* PK_RESTRICT q, i64 q_token, i64 q_head, const C* PK_RESTRICT keys, pk_cache kc, const C* PK_RESTRICT values, pk_cache vc, const void* table, int table_type, i64 table_stride, const void* lens, int lens_type, i64 blocks, i64 block_size, i64 room, i64 heads, i64 kv_heads, pk_options options, float* PK_RESTRICT parts) {
    PK_ENTER(call);
    PK_SHARED(float, query, [G][CHUNKS * 8]);
    PK_SHARED(float, weight, [G][TOKENS]); // a score, then its weight
    PK_SHARED(i64, place, [TOKENS]);       // of a token's value; -1 where it is not seen
    PK_SHARED(float, state, [3][G]);       // largest score, sum, factor for what was summed before
    PK_SHARED(float, joined, [AT_ONCE][LANES * 8 + 1]);
    const i64 group = heads / kv_heads, packs = (group + G - 1) / G;
    const i64 kv_head = blockIdx.y / packs, head0 = kv_head * group + blockIdx.y % packs * G, head_end = (kv_head + 1) * group;
    const i64 sequence = blockIdx.z, splits = gridDim.x;
    const int tid = threadIdx.x, lane = tid % LANES, token_lane = tid / LANES, warp = tid / PK_WARP, warps = THREADS / PK_WARP;

    for (int i = tid; i < G * CHUNKS * 8; i += THREADS) {
        const int g = i / (CHUNKS * 8), d = i % (CHUNKS * 8);
        query[g][d] = head0 + g < head_end && d < DIM ? pk_load(q[sequence * q_token + (head0 + g) * q_head + d]) : 0.f;
    }
    if (tid < G) {
        state[0][tid] = -pk_infinity();
        state[1][tid] = 0.f;
    }
    const i64 length = pk_length(call, lens, lens_type, sequence, room);
    const i64 seen_from = options.window > 0 ? pk_max(length - options.window, 0) : 0;
    const i64 share = (((length - seen_from + splits - 1) / splits) + TOKENS - 1) / TOKENS * TOKENS;
    const i64 from = seen_from + blockIdx.x * share, to = pk_min(from + share, length);

    float sums[G][TURNS][8];
#pragma unroll
    for (int i = 0; i < G * TURNS * 8; ++i) sums[i / (TURNS * 8)][i / 8 % TURNS][i % 8] = 0.f;
    for (i64 first = from; first < to; first += TOKENS) {
        PK_SYNC(); // the turn before is done with what is written now
#pragma unroll 1
        for (int pass = 0; pass < TOKENS; pass += AT_ONCE) {
            const int at = pass + token_lane;
            const i64 token = first + at;
            i64 block = -1;
            if (token < to) block = pk_block(call, table, table_type, sequence * table_stride + token / block_size, blocks);
            float dot[G];
#pragma unroll
            for (int g = 0; g < G; ++g) dot[g] = 0.f;
            if (block >= 0) {
                const C* key = keys + block * kc.block + token % block_size * kc.token + kv_head * kc.head;
#pragma unroll
                for (int turn = 0; turn < TURNS; ++turn) {
                    const int d = (turn * LANES + lane) * 8;
                    if (d >= CHUNKS * 8) continue;
                    float k[8];
                    pk_head8<DIM>(key, d, k);
#pragma unroll
                    for (int g = 0; g < G; ++g)
#pragma unroll
                        for (int j = 0; j < 8; ++j) dot[g] += query[g][d + j] * k[j];
                }
            }
#pragma unroll
            for (int g = 0; g < G; ++g)
#pragma unroll
                for (int m = LANES / 2; m > 0; m >>= 1) dot[g] += pk_shfl_xor(dot[g], m);
            if (lane == 0) {
                place[at] = block < 0 ? -1 : block * vc.block + token % block_size * vc.token + kv_head * vc.head;
#pragma unroll
                for (int g = 0; g < G; ++g) weight[g][at] = block < 0 ? -pk_infinity() : pk_score(dot[g], options);
            }
        }
        PK_SYNC();
        for (int g = warp; g < G; g += warps) {
            const float before = state[0][g];
            float most = before;
            for (int i = tid % PK_WARP; i < TOKENS; i += PK_WARP) most = pk_largest::of(most, weight[g][i]);
            most = pk_warp_reduce<pk_largest>(most);
            float sum = 0.f;
            for (int i = tid % PK_WARP; i < TOKENS; i += PK_WARP) {
                const float w = place[i] < 0 ? 0.f : pk_weight(weight[g][i], most);
                weight[g][i] = w;
                sum += w;
            }
            sum = pk_warp_reduce<pk_sum>(sum);
            if (tid % PK_WARP == 0) {
                const float factor = pk_weight(before, most);
                state[0][g] = most;
                state[1][g] = state[1][g] * factor + sum;
                state[2][g] = factor;
            }
        }
        PK_SYNC();
#pragma unroll
        for (int i = 0; i < G * TURNS * 8; ++i) sums[i / (TURNS * 8)][i / 8 % TURNS][i % 8] *= state[2][i / (TURNS * 8)];
#pragma unroll 1
        for (int at = token_lane; at < TOKENS; at += AT_ONCE) {
            if (place[at] < 0) continue;
#pragma unroll
            for (int turn = 0; turn < TURNS; ++turn) {
                const int d = (turn * LANES + lane) * 8;
                float v[8];
                pk_head8<DIM>(values + place[at], d, v);
#pragma unroll
                for (int g = 0; g < G; ++g)
#pragma unroll
                    for (int j = 0; j < 8; ++j) sums[g][turn][j] += weight[g][at] * v[j];
            }
        }
    }
    // What the token lanes have summed, together; a part is its sums, its largest score and its weight.
#pragma unroll
    for (int g = 0; g < G; ++g) {
        float* part = parts + ((sequence * heads + head0 + g) * splits + blockIdx.x) * (DIM + 2);
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            PK_SYNC();
#pragma unroll
            for (int j = 0; j < 8; ++j) joined[token_lane][lane * 8 + j] = sums[g][turn][j];
            PK_SYNC();
            if (head0 + g < head_end)
                for (int i = tid; i < LANES * 8; i += THREADS) {
                    const int d = turn * LANES * 8 + i;
                    float sum = 0.f;
                    for (int t = 0; t < AT_ONCE; ++t) sum += joined[t][i];
                    if (d < DIM) part[d] = sum;
                }
        }
        if (tid == 0 && head0 + g < head_end) {
            part[DIM] = state[0][g];
            part[DIM + 1] = state[1][g];
        }
    }
}
