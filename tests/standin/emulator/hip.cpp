// The part of libamdhip64 and libhiprtc that the ROCm backend calls; with -DHIP5 as those were before HIP 6: one library,
// the old layout of a device's properties, no memory in stream order.
#include "calls.h"

static std::vector<int> seen() { return visible("HIP_VISIBLE_DEVICES"); }
static long devices() { return (long)seen().size(); }
// One target, or one for each device: "gfx942:sramecc+:xnack-,gfx1100".
static std::string target(int device) {
    std::string all = setting("STANDIN_GFX", "gfx942:sramecc+:xnack-");
    const int physical = seen()[device];
    for (int i = 0; i < physical && all.find(',') != std::string::npos; i++) all = all.substr(all.find(',') + 1);
    return all.substr(0, all.find(','));
}
static unsigned width(int device) { return target(device).compare(0, 4, "gfx9") == 0 ? 64 : 32; }
// Lives on each thread, and may be changed by anybody: a program puts it back.
static thread_local int current = 0;

API(hipInit, (U), { return devices() ? SUCCESS : NO_DEVICE; })
#ifdef HIP5
API(hipRuntimeGetVersion, (int* v), { *v = (int)number("STANDIN_DRIVER", 50631061); return SUCCESS; })
API(hipGetDeviceProperties, (char* raw, int d), {
    enum { BYTES = 792, MEMORY = 256, WARP = 276, CORES = 336, L2 = 340, ARCH = 396 };
#else
API(hipRuntimeGetVersion, (int* v), { *v = (int)number("STANDIN_DRIVER", 60342134); return SUCCESS; })
API(hipGetDevicePropertiesR0600, (char* raw, int d), {
    enum { BYTES = 1472, MEMORY = 288, WARP = 308, CORES = 388, L2 = 616, ARCH = 1160 };
#endif
    if (d < 0 || d >= devices()) return INVALID_DEVICE;
    memset(raw, 0, BYTES);
    strcpy(raw, "stand-in ROCm device");
    auto put = [&](int at, auto value) { memcpy(raw + at, &value, sizeof value); };
    put(MEMORY, (size_t)memory_total());
    put(WARP, width(d));
    put(CORES, 8);
    put(L2, 4 << 20);
    strcpy(raw + ARCH, target(d).c_str());
    return SUCCESS;
})
API(hipGetDeviceCount, (int* n), { *n = (int)devices(); return devices() ? SUCCESS : NO_DEVICE; })
API(hipGetDevice, (int* d), { *d = current; return SUCCESS; })
API(hipSetDevice, (int d), { if (d < 0 || d >= devices()) return INVALID_DEVICE; current = d; return SUCCESS; })
API(hipStreamCreateWithFlags, (P* s, U), { *s = new_stream(); return SUCCESS; })
API(hipStreamDestroy, (P s), { drop_stream((Stream*)s); return SUCCESS; })
API(hipStreamSynchronize, (P s), { NOT_IN_CAPTURE Stream* q = stream_of(s); return flush(q, q->queued); })
API(hipStreamWaitEvent, (P s, P e, U), { auto* v = (Event*)e; if (v->stream) push(stream_of(s), Op{Op::WAIT, nullptr, v->stream, v->until}); return SUCCESS; })
API(hipEventCreateWithFlags, (P* e, U), { *e = new Event; return SUCCESS; })
API(hipEventDestroy, (P e), { delete (Event*)e; return SUCCESS; })
API(hipEventRecord, (P e, P s), { auto* q = stream_of(s); *(Event*)e = {q, q->queued}; return SUCCESS; })
API(hipEventSynchronize, (P e), { NOT_IN_CAPTURE auto* v = (Event*)e; return v->stream ? flush(v->stream, v->until) : SUCCESS; })
API(hipMalloc, (uintptr_t* p, size_t n), { NOT_IN_CAPTURE return allocate(p, n, false); })
API(hipFree, (uintptr_t p), { NOT_IN_CAPTURE flush_all(); return release(p); })
#ifndef HIP5
API(hipMallocAsync, (uintptr_t* p, size_t n, P), { NOT_IN_CAPTURE return allocate(p, n, false); })
API(hipFreeAsync, (uintptr_t p, P s), { push(stream_of(s), [=] { return release(p); }); return SUCCESS; })
API(hipDeviceGetDefaultMemPool, (P* p, int d), { if (!number("STANDIN_POOLS", 1)) return NOT_SUPPORTED; *p = (P)(uintptr_t)(0x2000 + d); return SUCCESS; })
API(hipMemPoolSetAttribute, (P, int, P), { return SUCCESS; })
#endif
API(hipHostMalloc, (P* p, size_t n, U), { NOT_IN_CAPTURE return allocate((uintptr_t*)p, n, true); })
API(hipHostGetDevicePointer, (uintptr_t* d, P h, U), { *d = (uintptr_t)h; return SUCCESS; })
API(hipMemcpyAsync, (uintptr_t d, uintptr_t s, size_t n, int kind, P st), {
    if (kind != 1 && kind != 2) return INVALID_VALUE;
    const bool to_device = kind == 1;
    // Pageable memory is read before the call returns, pinned memory when the copy runs.
    if (!to_device || is_pinned(s)) { push(stream_of(st), [=] { return copy(d, s, n, to_device, !to_device); }); return SUCCESS; }
    auto staged = std::make_shared<std::vector<char>>((char*)s, (char*)s + n);
    push(stream_of(st), [=] { return copy(d, (uintptr_t)staged->data(), n, true, false); });
    return SUCCESS;
})
API(hipMemsetAsync, (uintptr_t d, int v, size_t n, P st), { push(stream_of(st), [=] { return fill(d, (uint8_t)v, n); }); return SUCCESS; })
API(hipModuleLoadData, (P* m, const uint8_t* image), { NOT_IN_CAPTURE return load(image, (Module**)m); })
API(hipModuleGetFunction, (P* f, P m, const char* n), { return find((Module*)m, n, (Kernel**)f); })
API(hipModuleLaunchKernel, (P f, U gx, U gy, U gz, U bx, U by, U bz, U shared, P s, P* args, P*), {
    auto* k = (Kernel*)f;
    k->max_dynamic = k->max_shared = 64 << 10; // all that a block can have, without asking
    if (k->function.warp != width(current)) {
        say(k->name + " was compiled for wavefronts of " + std::to_string(k->function.warp) + " lanes");
        return INVALID_DEVICE_FUNCTION;
    }
    return launch(k, {gx, gy, gz}, {bx, by, bz}, shared, stream_of(s), args);
})
API(hipStreamBeginCapture, (P s, int), { begin_capture(stream_of(s)); return SUCCESS; })
API(hipStreamEndCapture, (P s, P* g), { return end_capture(stream_of(s), g); })
API(hipGraphInstantiate, (P* x, P g, P*, char*, size_t), { *x = new std::vector<Op>(*(std::vector<Op>*)g); return SUCCESS; })
API(hipGraphLaunch, (P x, P s), { launch_graph(stream_of(s), *(std::vector<Op>*)x); return SUCCESS; })
API(hipGraphDestroy, (P g), { delete (std::vector<Op>*)g; return SUCCESS; })
API(hipGraphExecDestroy, (P x), { delete (std::vector<Op>*)x; return SUCCESS; })

extern "C" const char* hipGetErrorName(int e) {
    switch (e) {
        case 0: return "hipSuccess";
        case 1: return "hipErrorInvalidValue";
        case 2: return "hipErrorOutOfMemory";
        case 98: return "hipErrorInvalidDeviceFunction";
        case 100: return "hipErrorNoDevice";
        case 101: return "hipErrorInvalidDevice";
        case 200: return "hipErrorInvalidImage";
        case 500: return "hipErrorNotFound";
        case 700: return "hipErrorIllegalAddress";
        case 719: return "hipErrorLaunchFailure";
        case 801: return "hipErrorNotSupported";
        case 900: return "hipErrorStreamCaptureUnsupported";
        case 901: return "hipErrorStreamCaptureInvalidated";
        default: return "hipErrorUnknown";
    }
}
extern "C" const char* hipGetErrorString(int) { return "as the stand-in has it"; }

// ---- hipRTC
extern "C" int hiprtcVersion(int* a, int* b) { *a = 9; *b = 0; return 0; }
RTC(hiprtc, "gfx")
RTC_IMAGE(hiprtc, Code)
