// One fiber for each GPU thread of a block, blocks spread over OS threads. Stricter than hardware: a divergent barrier or
// warp operation, a lane that left, a deadlock and an access outside device memory are errors; shared memory starts
// poisoned; the order of warps and lanes follows a seed; asynchronous copies land as late as they may, or at once.
#include "engine.h"
#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#ifdef __SANITIZE_ADDRESS__
#  include <sanitizer/asan_interface.h>
#  include <sanitizer/common_interface_defs.h>
#endif
#ifndef __x86_64__
#  error "the context switch below is for x86-64"
#endif

extern "C" void emu_switch(void** save, void* to);
asm(R"(.text
.globl emu_switch
.hidden emu_switch
emu_switch:
 push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
 mov %rsp,(%rdi); mov %rsi,%rsp
 pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret
)");

namespace emu {
namespace {
enum State : unsigned char { READY, AT_WARP, AT_BLOCK, DONE };
struct Copy { void* to; const void* from; unsigned bytes; };

struct Fiber {
    pk_thread thread; // first: pk_me() finds it
    void* sp;
    char* stack;
    void* fake;
    unsigned warp;
    State state;
    int kind, line, src;
    unsigned long long value, result;
    std::vector<unsigned long long> words;
    std::vector<std::vector<Copy>> copies; // groups; the last is open
};

struct Block {
    std::vector<Fiber> fibers;
    std::vector<unsigned> live, arrived;
    std::vector<std::vector<unsigned long long>> gathered;
    unsigned threads = 0, warps = 0, width = 32, total_live = 0, at_barrier = 0;
    int barrier_line = 0;
    bool copies_land_at_once = false;
    void* main_sp = nullptr;
    const void* main_bottom = nullptr;
    size_t main_size = 0;
    pk_dim bid{}, bdim{}, gdim{};
    void (*body)(void**) = nullptr;
    void** args = nullptr;
    unsigned shared_used = 0, shared_max = 0;
    std::vector<std::pair<const void*, std::vector<unsigned char>*>> shared;
    std::vector<unsigned char> dynamic;
    char error[256] = {0};
    Result result = OK;
    sigjmp_buf jump;
};

thread_local Block* B = nullptr;
thread_local Fiber* F = nullptr;

void fail(Result result, const char* format, ...) {
    if (B->result) return;
    B->result = result;
    va_list a;
    va_start(a, format);
    vsnprintf(B->error, sizeof B->error, format, a);
    va_end(a);
}

void park() {
    Fiber* me = F;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(me->state == DONE ? nullptr : &me->fake, B->main_bottom, B->main_size);
#endif
    emu_switch(&me->sp, B->main_sp);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(me->fake, nullptr, nullptr);
#endif
}

void resume(Fiber* f) {
    F = f;
#ifdef __SANITIZE_ADDRESS__
    void* fake;
    __sanitizer_start_switch_fiber(&fake, f->stack, PK_STACK);
#endif
    emu_switch(&B->main_sp, f->sp);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void entry() {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, &B->main_bottom, &B->main_size);
#endif
    B->body(B->args);
    F->state = DONE;
    B->live[F->warp]--;
    B->total_live--;
    if (B->arrived[F->warp] && !B->result) fail(BAD_SYNC, "thread %u left while its warp waits in a warp operation", F->thread.tid.x);
    if (F->copies.size() > 1 || !F->copies.back().empty()) fail(BAD_SYNC, "thread %u left with asynchronous copies that it did not wait for", F->thread.tid.x);
    park();
    __builtin_trap();
}

// Every live thread of the block must arrive, at the same place.
void barrier(int line) {
    if (B->at_barrier && line != B->barrier_line) fail(BAD_SYNC, "divergent barrier: line %d against line %d", line, B->barrier_line);
    if (B->total_live != B->threads) fail(BAD_SYNC, "barrier at line %d after %u threads left", line, B->threads - B->total_live);
    B->barrier_line = line;
    B->at_barrier++;
    F->state = AT_BLOCK;
    F->line = line;
    park();
}

// Every lane of the warp must arrive, with the same operation at the same place. Returns after the last one did.
void meet(int kind, int line) {
    Fiber* me = F;
    const unsigned base = me->warp * B->width, n = std::min(B->width, B->threads - base);
    me->kind = kind;
    me->line = line;
    me->state = AT_WARP;
    if (n != B->width) fail(BAD_SYNC, "warp operation at line %d in a partial warp of %u lanes", line, n);
    if (B->live[me->warp] != n) fail(BAD_SYNC, "warp operation at line %d after a lane left", line);
    if (++B->arrived[me->warp] < n) return park();
    Fiber* lane = &B->fibers[base];
    unsigned long long ballot = 0;
    for (unsigned i = 0; i < n; i++) {
        if (lane[i].kind != kind || lane[i].line != line) fail(BAD_SYNC, "divergent warp operation: line %d against line %d", line, lane[i].line);
        if (lane[i].value) ballot |= 1ull << i;
    }
    auto& all = B->gathered[me->warp];
    if (kind == PK_GATHER) all.clear();
    for (unsigned i = 0; i < n; i++) {
        lane[i].result = kind == PK_SHFL ? lane[(unsigned)lane[i].src % B->width].value : ballot;
        if (kind == PK_GATHER) all.insert(all.end(), lane[i].words.begin(), lane[i].words.end());
        lane[i].state = READY;
    }
    B->arrived[me->warp] = 0;
}

unsigned long long warp(int kind, unsigned long long value, int src, int line) {
    F->value = value;
    F->src = src;
    meet(kind, line);
    return F->result;
}

void gather(const unsigned long long* mine, int n, unsigned long long* all, int line) {
    F->words.assign(mine, mine + n);
    meet(PK_GATHER, line);
    auto& words = B->gathered[F->warp];
    memcpy(all, words.data(), words.size() * sizeof words[0]);
}

void* shared(const void* tag, unsigned bytes) {
    for (auto& s : B->shared)
        if (s.first == tag) return s.second->data();
    auto* memory = new std::vector<unsigned char>(bytes + 64, 0xff);
    B->shared.push_back({tag, memory});
    B->shared_used += bytes;
    if (B->shared_used > B->shared_max) fail(BAD_CONFIG, "%u bytes of shared memory, %u allowed", B->shared_used, B->shared_max);
    return memory->data();
}

void land(std::vector<Copy>& group) {
    for (auto& c : group) memcpy(c.to, c.from, c.bytes);
    group.clear();
}
void async_copy(void* to, const void* from, unsigned bytes) {
    if (((unsigned long long)to | (unsigned long long)from) % bytes) fail(FAULT, "asynchronous copy of %u bytes that is not aligned", bytes);
    if (B->copies_land_at_once && !B->result) memcpy(to, from, bytes);
    else F->copies.back().push_back({to, from, bytes});
}
void async_commit() { F->copies.push_back({}); }
void async_wait(int left) {
    while ((int)F->copies.size() - 1 > left) {
        land(F->copies.front());
        F->copies.erase(F->copies.begin());
    }
}

const pk_api API = {barrier, warp, gather, shared, async_copy, async_wait, async_commit};

void run_block(unsigned seed) {
    Block& b = *B;
    const unsigned n = b.threads, width = b.width;
    for (auto& s : b.shared) delete s.second;
    b.shared.clear();
    b.shared_used = (unsigned)b.dynamic.size();
    std::fill(b.dynamic.begin(), b.dynamic.end(), 0xff);
    b.at_barrier = 0;
    b.total_live = n;
    b.arrived.assign(b.warps, 0);
    b.live.assign(b.warps, 0);
    b.gathered.resize(b.warps);
    for (unsigned i = 0; i < n; i++) {
        Fiber& f = b.fibers[i];
        const pk_dim tid = {i % b.bdim.x, i / b.bdim.x % b.bdim.y, i / (b.bdim.x * b.bdim.y)};
        unsigned char* dynamic = b.dynamic.data();
        f.thread = {tid, i % width, &b.bid, &b.bdim, &b.gdim, dynamic + (64 - (size_t)dynamic % 64) % 64, &API};
        f.warp = i / width;
        f.state = READY;
        f.fake = nullptr;
        f.copies.assign(1, {});
        b.live[f.warp]++;
#ifdef __SANITIZE_ADDRESS__
        // A thread that ran on this stack before has left marks; its frames are not deeper than this.
        __asan_unpoison_memory_region(f.stack + PK_STACK - (64 << 10), 64 << 10);
#endif
        *(pk_thread**)f.stack = &f.thread;
        void** sp = (void**)(f.stack + PK_STACK - 64);
        *--sp = nullptr;
        *--sp = (void*)&entry;
        sp -= 6;
        memset(sp, 0, 48);
        f.sp = sp;
    }
    b.copies_land_at_once = seed >> 1 & 1;
    // The seed turns and mirrors the order of warps and of lanes.
    const bool mirror = seed & 1;
    const unsigned turn_warp = (seed >> 1) % b.warps, turn_lane = (seed >> 3) % width;
    while (b.total_live && !b.result) {
        for (unsigned w = 0; w < b.warps && !b.result; w++) {
            const unsigned at = ((mirror ? b.warps - 1 - w : w) + turn_warp) % b.warps;
            for (bool again = true; again && !b.result;) { // a warp runs as far as it goes before the next one
                again = false;
                for (unsigned l = 0; l < width && !b.result; l++) {
                    const unsigned i = at * width + ((mirror ? width - 1 - l : l) + turn_lane) % width;
                    if (i < n && b.fibers[i].state == READY) {
                        resume(&b.fibers[i]);
                        again = true;
                    }
                }
            }
        }
        if (b.result || !b.total_live) break;
        if (b.at_barrier == b.total_live) {
            b.at_barrier = 0;
            for (auto& f : b.fibers)
                if (f.state == AT_BLOCK) f.state = READY;
            continue;
        }
        for (auto& f : b.fibers)
            if (f.state == AT_WARP || f.state == AT_BLOCK) {
                fail(BAD_SYNC, "deadlock: thread %u waits at line %d, and others do not come", f.thread.tid.x, f.line);
                break;
            }
    }
}

void on_fault(int, siginfo_t* info, void*) {
    if (!B) {
        signal(SIGSEGV, SIG_DFL);
        return;
    }
    fail(FAULT, "illegal address %p in thread %u of block (%u, %u, %u)", info->si_addr, F->thread.tid.x, B->bid.x, B->bid.y, B->bid.z);
    siglongjmp(B->jump, 1);
}

// Stacks for the threads of one block, kept for the next launch.
struct Stacks {
    static constexpr size_t COUNT = 1024;
    char *map, *base;
    Stacks() {
        const size_t size = (COUNT + 1) * (size_t)PK_STACK;
        map = (char*)mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED) abort();
        base = (char*)(((size_t)map + PK_STACK - 1) & ~(size_t)(PK_STACK - 1));
    }
};
std::mutex kept_lock;
std::vector<Stacks> kept;

Stacks take() {
    std::lock_guard<std::mutex> lock(kept_lock);
    if (kept.empty()) return Stacks();
    Stacks s = kept.back();
    kept.pop_back();
    return s;
}

void work(const Function& f, const Launch& launch, void** args, std::atomic<unsigned long long>& next, std::atomic<int>& result, std::string& error) {
    Block b;
    B = &b;
    b.bdim = launch.block;
    b.gdim = launch.grid;
    b.width = f.warp;
    b.threads = b.bdim.x * b.bdim.y * b.bdim.z;
    b.warps = (b.threads + b.width - 1) / b.width;
    b.body = f.body;
    b.args = args;
    b.shared_max = launch.max_shared;
    if (launch.dynamic) b.dynamic.resize(launch.dynamic + 64);
    Stacks stacks = take();
    b.fibers.resize(b.threads);
    for (unsigned i = 0; i < b.threads; i++) b.fibers[i].stack = stacks.base + i * (size_t)PK_STACK;
    static thread_local std::vector<char> alternate(64 << 10);
    stack_t mine{}, before{};
    mine.ss_sp = alternate.data();
    mine.ss_size = alternate.size();
    sigaltstack(&mine, &before);
    const unsigned long long blocks = (unsigned long long)launch.grid.x * launch.grid.y * launch.grid.z;
    for (unsigned long long i; !result && (i = next++) < blocks;) {
        b.bid = {(unsigned)(i % launch.grid.x), (unsigned)(i / launch.grid.x % launch.grid.y), (unsigned)(i / launch.grid.x / launch.grid.y)};
        if (!sigsetjmp(b.jump, 1)) run_block(launch.seed ? launch.seed + (unsigned)i * 7 : 0);
        int none = OK;
        if (b.result && result.compare_exchange_strong(none, b.result)) error = b.error;
    }
    for (auto& s : b.shared) delete s.second;
    sigaltstack(&before, nullptr);
    B = nullptr;
    F = nullptr;
    std::lock_guard<std::mutex> lock(kept_lock);
    kept.push_back(stacks);
}
} // namespace

Result run(const Function& f, const Launch& launch, void** args, std::string& error) {
    const unsigned long long threads = (unsigned long long)launch.block.x * launch.block.y * launch.block.z;
    const unsigned long long blocks = (unsigned long long)launch.grid.x * launch.grid.y * launch.grid.z;
    if (!threads || !blocks || threads > f.bound || launch.dynamic > launch.max_shared || launch.grid.y > 65535 || launch.grid.z > 65535) {
        error = "bad launch: " + std::to_string(threads) + " threads (the kernel takes " + std::to_string(f.bound) + "), " + std::to_string(blocks) + " blocks, " +
                std::to_string(launch.dynamic) + " bytes of dynamic shared memory";
        return BAD_CONFIG;
    }
    std::atomic<unsigned long long> next{0};
    std::atomic<int> result{OK};
    struct sigaction mine{}, before{};
    mine.sa_sigaction = on_fault;
    mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
#ifndef __SANITIZE_ADDRESS__
    sigaction(SIGSEGV, &mine, &before);
#endif
    std::vector<std::thread> others;
    const unsigned long long cores = std::max(1u, std::thread::hardware_concurrency());
    for (unsigned long long i = 1; i < std::min(cores, blocks / 2); i++)
        others.emplace_back([&] { work(f, launch, args, next, result, error); });
    work(f, launch, args, next, result, error);
    for (auto& t : others) t.join();
#ifndef __SANITIZE_ADDRESS__
    sigaction(SIGSEGV, &before, nullptr);
#endif
    return (Result)result.load();
}
}
