// Which rows a block of prefill has, and which tokens they see.
#ifndef PK_SPANS_H
#define PK_SPANS_H
#include "attention.h"

// Pairs of a row and one of the `group` heads that share a key-value head, of one sequence.
struct pk_span {
    i64 sequence, first_row, rows, kv_len;
    i64 first_pair, pairs; // of this block; none where the grid has more blocks than there is work
};

// The span of block `block`, where each sequence is cut into blocks of `size` pairs. Offsets that are not those of `rows`
// rows are reported, and give rows that see nothing.
PK_DEV pk_span pk_span_of(const pk_call& call, const void* offsets, int type, const void* lens, int lens_type, i64 batch, i64 rows, i64 group, i64 size, i64 block, i64 room) {
    pk_span span = {0, 0, 0, 0, 0, 0};
    i64 last = 0, blocks = 0, bad = 0;
    bool valid = true, found = false;
    for (i64 s = 0; s <= batch && valid; ++s) {
        const i64 offset = pk_index(offsets, type, s);
        if (offset < last || offset > rows || (s == 0 && offset != 0)) {
            valid = false;
            bad = offset;
            break;
        }
        const i64 n = s > 0 ? offset - last : 0, here = (n * group + size - 1) / size;
        if (!found && block < blocks + here) {
            found = true;
            span.sequence = s - 1;
            span.first_row = last;
            span.rows = n;
            span.first_pair = (block - blocks) * size;
            span.pairs = pk_min(size, n * group - span.first_pair);
        }
        blocks += here;
        last = offset;
    }
    if (valid && last != rows) {
        valid = false;
        bad = last;
    }
    if (!valid) {
        pk_fault(call, bad, rows + 1);
        const i64 first = block * size;
        return pk_span{0, 0, rows, 0, first, pk_min(size, rows * group - first)};
    }
    if (found) span.kv_len = pk_length(call, lens, lens_type, span.sequence, room);
    return span;
}

// The first token that row i sees, and the one behind the last.
PK_DEV i64 pk_seen_from(const pk_span& s, i64 i, i64 window) { return window > 0 ? pk_max(s.kv_len + i + 1 - s.rows - window, 0) : 0; }
PK_DEV i64 pk_seen_to(const pk_span& s, i64 i, int causal) { return causal ? pk_min(pk_max(s.kv_len + i + 1 - s.rows, 0), s.kv_len) : s.kv_len; }

// Where a sequence's mask begins; -1 for one that is not all there, which is reported and hides everything.
PK_DEV i64 pk_mask_base(const pk_call& call, const void* offsets, int type, const pk_span& s, i64 length) {
    const i64 base = pk_index(offsets, type, s.sequence), needed = s.rows * s.kv_len;
    if (base >= 0 && needed <= length && base <= length - needed) return base;
    pk_fault(call, base, pk_max(length + 1 - needed, 0));
    return -1;
}

// Reports lengths and masks of sequences without rows too, which no block works on: for one thread of the grid.
PK_DEV void pk_check_idle(const pk_call& call, const void* offsets, int type, const void* lens, int lens_type, i64 batch, i64 room, const u8* mask, const void* mask_offsets, int mask_type, i64 mask_length) {
    for (i64 s = 0; s < batch; ++s) {
        pk_span span = {s, 0, 0, pk_length(call, lens, lens_type, s, room), 0, 0};
        if (mask && pk_index(offsets, type, s) == pk_index(offsets, type, s + 1)) pk_mask_base(call, mask_offsets, mask_type, span, mask_length);
    }
}

// Whether any row of the span sees a token that lies between what its first and its last row see.
PK_DEV bool pk_anyone_sees(const u8* mask, i64 base, const pk_span& s, i64 token, const pk_options& o, i64 group) {
    if (!mask && !(o.window > 0)) return true;
    for (i64 i = s.first_pair / group; i <= (s.first_pair + s.pairs - 1) / group; ++i)
        if (token >= pk_seen_from(s, i, o.window) && token < pk_seen_to(s, i, o.causal) && (!mask || mask[base + i * s.kv_len + token] != 0)) return true;
    return false;
}
#endif
