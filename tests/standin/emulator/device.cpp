#include "device.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <set>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#  include <sanitizer/asan_interface.h>
#endif

namespace device {
namespace {
int sticky = SUCCESS;
std::map<std::string, long> calls;
std::set<Stream*> streams;
constexpr size_t PAGE = 4096, ALIGN = 64;
struct Allocation { uintptr_t map; size_t bytes, map_bytes; bool host; };
std::map<uintptr_t, Allocation> allocations;
size_t used = 0;
int open_depth = 0;

void protect(int rights) {
    for (auto& a : allocations)
        if (!a.second.host) mprotect((void*)a.second.map, a.second.map_bytes - PAGE, rights);
}
// Device memory is open to the process only while the device works.
struct Open {
    Open() { if (open_depth++ == 0) protect(PROT_READ | PROT_WRITE); }
    ~Open() { if (--open_depth == 0) protect(PROT_NONE); }
};

std::vector<uint8_t> read_file(const std::string& path) {
    std::vector<uint8_t> all;
    if (FILE* f = fopen(path.c_str(), "r")) {
        uint8_t buffer[65536];
        for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0;) all.insert(all.end(), buffer, buffer + n);
        fclose(f);
    }
    return all;
}

const Allocation* inside(uintptr_t at, size_t bytes) {
    auto next = allocations.upper_bound(at);
    if (next == allocations.begin()) return nullptr;
    auto& found = *--next;
    return at + bytes <= found.first + found.second.bytes ? &found.second : nullptr;
}
}

std::string setting(const char* name, const char* otherwise) { const char* v = getenv(name); return v ? v : otherwise; }
long number(const char* name, long otherwise) { const char* v = getenv(name); return v ? atol(v) : otherwise; }
std::vector<int> visible(const char* variable) {
    const long all = number("STANDIN_DEVICES", 1);
    std::string list = setting(variable, "*");
    std::vector<int> seen;
    if (list == "*") for (int i = 0; i < all; i++) seen.push_back(i);
    for (size_t from = 0; list != "*" && from < list.size();) {
        const size_t to = std::min(list.find(',', from), list.size());
        char rest;
        int i = -1;
        if (sscanf(list.substr(from, to - from).c_str(), "%d%c", &i, &rest) != 1 || i < 0 || i >= all) break;
        seen.push_back(i);
        from = to + 1;
    }
    return seen;
}
std::recursive_mutex& lock() { static std::recursive_mutex m; return m; }
void say(const std::string& text) { fprintf(stderr, "[stand-in] %s\n", text.c_str()); }

int enter(const char* name) {
    const long nth = ++calls[name];
    if (getenv("STANDIN_TRACE")) say(std::string(name) + " #" + std::to_string(nth));
    std::string faults = setting("STANDIN_FAIL", "");
    for (size_t from = 0; from < faults.size();) {
        size_t to = std::min(faults.find(',', from), faults.size());
        char call[64];
        long which, code;
        if (sscanf(faults.substr(from, to - from).c_str(), "%63[^:]:%ld:%ld", call, &which, &code) == 3 && name == std::string(call) && which == nth) return (int)code;
        from = to + 1;
    }
    return sticky;
}

Stream* new_stream() { auto* s = new Stream; streams.insert(s); return s; }
void drop_stream(Stream* s) { flush(s, s->queued); streams.erase(s); delete s; }
Stream* stream_of(void* handle) {
    static Stream* null_stream = new_stream();
    return handle ? (Stream*)handle : null_stream;
}
bool capturing() {
    bool any = false;
    for (auto* s : streams)
        if (s->capturing) s->broken = any = true;
    return any;
}
void push(Stream* s, Op op) {
    if (s->capturing) return s->captured.push_back(std::move(op));
    s->queue.push_back(std::move(op));
    s->queued++;
}
int flush(Stream* s, uint64_t until) {
    if (!streams.count(s)) return SUCCESS;
    Open open;
    while (s->done < until && !s->queue.empty()) {
        Op op = std::move(s->queue.front());
        s->queue.pop_front();
        s->done++;
        if (op.kind == Op::WAIT) { flush(op.stream, op.until); continue; }
        if (sticky == SUCCESS)
            if (int e = op.work()) sticky = e;
    }
    return sticky;
}
int flush_all() {
    for (auto* s : std::set<Stream*>(streams)) flush(s, s->queued);
    return sticky;
}
void begin_capture(Stream* s) {
    s->capturing = true;
    s->broken = false;
    s->captured.clear();
}
int end_capture(Stream* s, void** graph) {
    s->capturing = false;
    *graph = s->broken ? nullptr : new std::vector<Op>(std::move(s->captured));
    return s->broken ? CAPTURE_INVALIDATED : SUCCESS;
}
void launch_graph(Stream* s, const std::vector<Op>& ops) { for (auto& op : ops) push(s, op); }

size_t memory_total() { return (size_t)number("STANDIN_MEMORY_MB", 2048) << 20; }
size_t memory_used() { return used; }

int allocate(uintptr_t* out, size_t bytes, bool host) {
    if (!out || !bytes) return INVALID_VALUE;
    if (!host && used + bytes > memory_total()) flush_all(); // frees that wait in a queue
    if (!host && (bytes > memory_total() || used + bytes > memory_total())) return OUT_OF_MEMORY;
    const size_t pages = (bytes + PAGE - 1) & ~(PAGE - 1), map_bytes = pages + PAGE;
    void* map = mmap(nullptr, map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return OUT_OF_MEMORY;
    mprotect((char*)map + pages, PAGE, PROT_NONE);
    const uintptr_t at = (uintptr_t)map + pages - ((bytes + ALIGN - 1) & ~(ALIGN - 1));
    memset(map, 0xff, pages);
    if (!host && !open_depth) mprotect(map, pages, PROT_NONE);
#ifdef __SANITIZE_ADDRESS__
    __asan_poison_memory_region((char*)at + bytes, (uintptr_t)map + pages - at - bytes);
#endif
    allocations[at] = {(uintptr_t)map, bytes, map_bytes, host};
    if (!host) used += bytes;
    *out = at;
    return SUCCESS;
}

int release(uintptr_t at) {
    if (!at) return SUCCESS;
    auto found = allocations.find(at);
    if (found == allocations.end()) return INVALID_VALUE;
    const Allocation a = found->second;
    // What lies behind the last byte must still be what it was.
    Open open;
    const uintptr_t end = a.map + a.map_bytes - PAGE;
    int result = SUCCESS;
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region((char*)at + a.bytes, end - at - a.bytes);
#endif
    for (uintptr_t p = at + a.bytes; p < end; p++)
        if (*(uint8_t*)p != 0xff) {
            say("something wrote behind the end of an allocation of " + std::to_string(a.bytes) + " bytes");
            result = ILLEGAL_ADDRESS;
            break;
        }
    if (!a.host) used -= a.bytes;
    munmap((void*)a.map, a.map_bytes);
    allocations.erase(found);
    return result;
}

bool is_pinned(uintptr_t at) { auto* a = inside(at, 1); return a && a->host; }

int copy(uintptr_t to, uintptr_t from, size_t bytes, bool to_device, bool from_device) {
    if ((to_device && !inside(to, bytes)) || (from_device && !inside(from, bytes))) return ILLEGAL_ADDRESS;
    memcpy((void*)to, (void*)from, bytes);
    return SUCCESS;
}
int fill(uintptr_t to, uint8_t value, size_t bytes) {
    if (!inside(to, bytes)) return ILLEGAL_ADDRESS;
    memset((void*)to, value, bytes);
    return SUCCESS;
}

int load(const uint8_t* image, Module** out) {
    auto read = [&](size_t at, int n) { uint64_t v = 0; for (int i = 0; i < n; i++) v |= (uint64_t)image[at + i] << 8 * i; return v; };
    // Only what `compile` makes: a shared object for this processor. A real cubin is refused.
    if (!image || memcmp(image, "\177ELF", 4) || read(0x12, 2) != 62) return INVALID_IMAGE;
    const size_t bytes = read(0x28, 8) + read(0x3a, 2) * read(0x3c, 2); // the call has no length: to the end of the section headers
    // A name of its own for each: the loader takes two files of one name for one library.
    char path[] = "/tmp/stand-in-XXXXXX";
    const int file = mkstemp(path);
    if (file < 0 || write(file, image, bytes) != (ssize_t)bytes) return INVALID_IMAGE;
    close(file);
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) say(dlerror());
    unlink(path);
    if (!handle) return INVALID_IMAGE;
    *out = new Module{handle};
    return SUCCESS;
}

int find(Module* m, const char* name, Kernel** out) {
    auto symbol = [&](const char* suffix) { return dlsym(m->handle, (std::string(name) + suffix).c_str()); };
    void* body = symbol("");
    if (!body || !symbol("__params")) return NOT_FOUND;
    auto* k = new Kernel;
    k->name = name;
    k->function.body = (void (*)(void**))body;
    k->function.params = ((const pk_param* (*)(unsigned*))symbol("__params"))(&k->function.count);
    k->function.bound = ((unsigned (*)())symbol("__bound"))();
    k->function.warp = ((unsigned (*)())symbol("__warp"))();
    *out = k;
    return SUCCESS;
}

int launch(Kernel* k, pk_dim grid, pk_dim block, unsigned dynamic, Stream* s, void** args) {
    // A launch that cannot be is an error at once, as on a device; what goes wrong inside comes later.
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (!threads || !grid.x || !grid.y || !grid.z || threads > 1024 || grid.y > 65535 || grid.z > 65535 || dynamic > k->max_dynamic) return INVALID_VALUE;
    auto values = std::make_shared<std::vector<std::vector<char>>>();
    for (unsigned i = 0; i < k->function.count; i++) values->emplace_back((char*)args[i], (char*)args[i] + k->function.params[i].size);
    push(s, [=]() -> int {
        std::vector<void*> pointers;
        for (unsigned i = 0; i < k->function.count; i++) {
            char* value = (*values)[i].data();
            uintptr_t at = 0;
            if (k->function.params[i].is_pointer) memcpy(&at, value, sizeof at);
            if (at > 4096 && !inside(at, 0)) {
                say(k->name + ": argument " + std::to_string(i) + " is no device pointer");
                return ILLEGAL_ADDRESS;
            }
            pointers.push_back(value);
        }
        emu::Launch l{grid, block, dynamic, (unsigned)number("STANDIN_SEED", 0), k->max_shared};
        std::string error;
        const emu::Result r = emu::run(k->function, l, pointers.data(), error);
        if (r == emu::OK) return SUCCESS;
        say(k->name + ": " + error);
        return r == emu::FAULT ? ILLEGAL_ADDRESS : LAUNCH_FAILED;
    });
    return SUCCESS;
}

bool compile(Program& p, const std::vector<std::string>& options, const std::string& archs) {
    // A mutant: "from=>to" in whatever text has it.
    const std::string mutation = setting("STANDIN_MUTATE", "");
    const size_t arrow = mutation.find("=>");
    auto mutated = [&](std::string text) {
        if (arrow == std::string::npos) return text;
        const std::string from = mutation.substr(0, arrow), to = mutation.substr(arrow + 2);
        for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
            text.replace(at, from.size(), to);
            say("mutated");
        }
        return text;
    };
    p.source = mutated(p.source);
    for (auto& h : p.headers) h.second = mutated(h.second);
    std::string flags = " -std=c++17 -O1 -fPIC -shared -fvisibility=hidden -w -DPK_EMU -I" EMU_HEADERS " " + setting("STANDIN_CXXFLAGS", "");
    for (auto& o : options) {
        const std::string arch = "--gpu-architecture=";
        if (o.find("-D") == 0) flags += " '" + o + "'";
        if (o.find(arch) == 0 && o.find(archs, arch.size()) != arch.size() && o.find("compute_") != arch.size()) {
            p.log = "invalid value for " + o;
            return false;
        }
        // What AMD's compiler says of architectures whose instructions sources ask for.
        for (const char* gfx : {"gfx942", "gfx950", "gfx1200", "gfx1201"})
            if (o == arch + gfx) flags += std::string(" -D__") + gfx + "__";
    }
    // Two hashes of everything name what was made of it: tests with caches of their own need not compile it again.
    std::string all = flags + p.source;
    for (auto& h : p.headers) all += h.first + h.second;
    uint64_t one = 0xcbf29ce484222325ull, two = 0;
    for (unsigned char c : all) one = (one ^ c) * 0x100000001b3ull, two = (two + c) * 0x9e3779b97f4a7c15ull ^ two >> 29;
    char name[64];
    snprintf(name, sizeof name, "/%016llx%016llx.so", (unsigned long long)one, (unsigned long long)two);
    const std::string made = setting("STANDIN_MADE", "/tmp") + name;
    p.code = read_file(made);
    if (!p.code.empty()) return true;
    char folder[] = "/tmp/stand-in-XXXXXX";
    if (!mkdtemp(folder)) { p.log = "no temporary folder"; return false; }
    const std::string at = folder;
    auto put = [&](const std::string& name, const std::string& text) {
        FILE* f = fopen((at + "/" + name).c_str(), "w");
        if (f) { fwrite(text.data(), 1, text.size(), f); fclose(f); }
    };
    put("kernel.cu", p.source);
    for (auto& h : p.headers) put(h.first, h.second);
    const bool ok = system(("cd " + at + " && " + setting("STANDIN_CXX", "g++") + flags + " -x c++ kernel.cu -o kernel.so > log 2>&1").c_str()) == 0;
    const auto log = read_file(at + "/log");
    p.log.assign(log.begin(), log.end());
    if (ok) {
        p.code = read_file(at + "/kernel.so");
        // Appears whole or not at all: other processes look for it.
        const std::string aside = made + "." + std::to_string(getpid()) + (at.c_str() + at.size() - 6);
        if (system(("cp " + at + "/kernel.so " + aside + " && mv " + aside + " " + made).c_str())) {}
    }
    if (system(("rm -rf " + at).c_str())) {}
    return ok;
}
}
