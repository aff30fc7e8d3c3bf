// Activations that were rounded to 8 bits (ops: gemm::int8_activations): dense rows of bytes, and for each 32 of them:
#ifndef PK_ROUNDED_H
#define PK_ROUNDED_H
#include "types.h"

struct pk_rounded {
    float scale;
    float sum; // of the 32 elements, for weights with an offset
};
#endif
