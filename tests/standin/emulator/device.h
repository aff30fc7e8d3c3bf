// The stand-in's device: memory that the host cannot touch, queues that run only when somebody waits for them, and kernels
// that run in the emulation. Meaner than hardware where a program may rely on luck: work that nobody waits for never
// runs, streams run apart as far as events let them, new memory holds 0xFF, and its end is guarded.
//
// Settings, from the environment: STANDIN_DEVICES (all there are, before the vendors' own variables hide some), STANDIN_CC (80), STANDIN_GFX (gfx942:sramecc+:xnack-), STANDIN_MEMORY_MB, STANDIN_DRIVER and STANDIN_CUBLASLT (versions),
// STANDIN_SEED (schedule of the emulation), STANDIN_MUTATE=from=>to (a fault put into kernel sources), STANDIN_FAIL=call:nth:code[,...], STANDIN_TRACE.
#pragma once
#include "engine.h"
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace device {
// Numbers that CUresult and hipError_t share.
enum Code {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
    NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719,
    INVALID_DEVICE_FUNCTION = 98, NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901
};

std::string setting(const char* name, const char* otherwise);
long number(const char* name, long otherwise);
// The devices that a program sees: all, or those that a vendor's variable lists, up to the first that there is not.
std::vector<int> visible(const char* variable);
std::recursive_mutex& lock();
// Counts the call, and answers the error that STANDIN_FAIL asks for, or that of a kernel that failed before.
int enter(const char* name);
void say(const std::string& text);

struct Op {
    enum Kind { WORK, WAIT } kind;
    std::function<int()> work;
    struct Stream* stream; // of the event that is waited for
    uint64_t until;
};
struct Stream {
    std::deque<Op> queue;
    uint64_t queued = 0, done = 0;
    bool capturing = false, broken = false;
    std::vector<Op> captured;
};
struct Event {
    Stream* stream = nullptr;
    uint64_t until = 0;
};
Stream* stream_of(void* handle);
Stream* new_stream();
void drop_stream(Stream* s);
// Queues work, or captures it.
void push(Stream* s, Op op);
inline void push(Stream* s, std::function<int()> work) { push(s, Op{Op::WORK, std::move(work), nullptr, 0}); }
// Runs a stream's queue to `until`, and what it waits for.
int flush(Stream* s, uint64_t until);
int flush_all();
// Whether a call that waits or allocates breaks a capture.
bool capturing();
// What is queued goes to a graph until the end, which is an error where a call could not be part of it.
void begin_capture(Stream* s);
int end_capture(Stream* s, void** graph);
void launch_graph(Stream* s, const std::vector<Op>& ops);

int allocate(uintptr_t* out, size_t bytes, bool host);
int release(uintptr_t at);
bool is_pinned(uintptr_t at);
size_t memory_used();
size_t memory_total();
int copy(uintptr_t to, uintptr_t from, size_t bytes, bool to_device, bool from_device);
int fill(uintptr_t to, uint8_t value, size_t bytes);

struct Module { void* handle; };
struct Kernel {
    emu::Function function;
    unsigned max_dynamic = 48 << 10, max_shared = 48 << 10; // what it may have beside its own, and in all
    std::string name;
};
int load(const uint8_t* image, Module** out);
int find(Module* m, const char* name, Kernel** out);
int launch(Kernel* k, pk_dim grid, pk_dim block, unsigned dynamic, Stream* s, void** args);

// "Compiles" a portable kernel with the host's C++ compiler, or takes what that made of the same text before.
struct Program {
    std::string source, log;
    std::vector<std::pair<std::string, std::string>> headers;
    std::vector<uint8_t> code;
};
// Architectures that begin otherwise than `archs` are an error.
bool compile(Program& p, const std::vector<std::string>& options, const std::string& archs);
}
