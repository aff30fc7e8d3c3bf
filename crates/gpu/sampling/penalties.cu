// Logits of tokens that were there already, lowered in place: one block a row counts them in a row of `counts` and then
// visits each once. The top bit of a count says that the prompt has the token.
#include "types.h"
typedef pk_type<PK_T>::type T;
#define PROMPT 0x80000000u

// The token of a list's entry; -1 for padding, and for one outside the vocabulary, which is reported where `report` says.
PK_DEV i64 token_of(const pk_call& call, const void* list, int type, i64 at, i64 cols, bool report) {
    const i64 token = pk_index(list, type, at);
    if (token >= 0 && token < cols) return token;
    if (token >= 0 && report) pk_fault(call, token, cols);
    return -1;
}

PK_KERNEL(penalties, 1024, pk_call call, T* logits, i64 stride, const void* prompt, int prompt_type, i64 prompt_stride, i64 prompt_length, const void* output, int output_type, i64 output_stride, i64 output_length, const float* PK_RESTRICT repetition, const float* PK_RESTRICT frequency, const float* PK_RESTRICT presence, u32* counts, i64 rows, i64 cols) {
    PK_ENTER(call);
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        u32* count = counts + row * cols;
        for (i64 i = threadIdx.x; i < cols; i += blockDim.x) count[i] = 0;
        PK_SYNC();
        for (i64 i = threadIdx.x; i < prompt_length; i += blockDim.x) {
            const i64 token = token_of(call, prompt, prompt_type, row * prompt_stride + i, cols, true);
            if (token >= 0) atomicOr(&count[token], PROMPT);
        }
        for (i64 i = threadIdx.x; i < output_length; i += blockDim.x) {
            const i64 token = token_of(call, output, output_type, row * output_stride + i, cols, true);
            if (token >= 0) atomicAdd(&count[token], 1u);
        }
        PK_SYNC();
        for (i64 i = threadIdx.x; i < prompt_length + output_length; i += blockDim.x) {
            const bool in_prompt = i < prompt_length;
            const i64 at = in_prompt ? row * prompt_stride + i : row * output_stride + i - prompt_length;
            const i64 token = token_of(call, in_prompt ? prompt : output, in_prompt ? prompt_type : output_type, at, cols, false);
            if (token < 0) continue;
            const u32 seen = atomicExch(&count[token], 0u);
            if (!seen) continue;
            T* place = logits + row * stride + token;
            const float logit = pk_load(*place), times = (float)(seen & ~PROMPT);
            const float scaled = logit > 0.f ? logit / repetition[row] : logit * repetition[row];
            *place = pk_to<T>::of(scaled - (times * frequency[row] + (times > 0.f ? presence[row] : 0.f)));
        }
        PK_SYNC();
    }
}
