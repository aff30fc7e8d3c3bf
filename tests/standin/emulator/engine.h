// The engine of the SIMT emulation: runs one launch of a kernel that was compiled with pk_emu.h.
#pragma once
#include <string>
#include <vector>
#define PK_WARP 32 // only for the header's own check: a kernel says its width itself
#include "pk_emu.h"
#undef PK_WARP

namespace emu {
enum Result { OK = 0, BAD_CONFIG = 1, BAD_SYNC = 2, FAULT = 3 };

struct Function {
    void (*body)(void**);
    const pk_param* params;
    unsigned count, bound, warp;
};

struct Launch {
    pk_dim grid, block;
    unsigned dynamic, seed, max_shared;
};

// Runs every block; `error` says what went wrong in words.
Result run(const Function& f, const Launch& launch, void** args, std::string& error);
}
