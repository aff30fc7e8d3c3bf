// The part of libcuda and libnvrtc that the CUDA backend calls.
#include "calls.h"

static std::vector<int> seen() { return visible("CUDA_VISIBLE_DEVICES"); }
static long devices() { return (long)seen().size(); }
static thread_local P current;

API(cuInit, (U), { return devices() ? SUCCESS : NO_DEVICE; })
API(cuDriverGetVersion, (int* v), { *v = (int)number("STANDIN_DRIVER", 13000); return SUCCESS; })
API(cuDeviceGetCount, (int* n), { *n = (int)devices(); return SUCCESS; })
API(cuDeviceGet, (int* d, int i), { if (i < 0 || i >= devices()) return INVALID_DEVICE; *d = i; return SUCCESS; })
API(cuDeviceGetName, (char* p, int n, int), { strncpy(p, "stand-in CUDA device", n); return SUCCESS; })
API(cuDeviceTotalMem_v2, (size_t* n, int), { *n = memory_total(); return SUCCESS; })
// One capability, or one for each device: "80,90".
static int capability(int d) {
    std::string all = setting("STANDIN_CC", "80");
    const int physical = seen()[d];
    for (int i = 0; i < physical && all.find(',') != std::string::npos; i++) all = all.substr(all.find(',') + 1);
    return atoi(all.c_str());
}
// Shared memory that a block may ask for.
static int most_shared(int d) { return (capability(d) == 90 ? 227 : 99) << 10; }
API(cuDeviceGetAttribute, (int* v, int a, int d), {
    if (d < 0 || d >= devices()) return INVALID_DEVICE;
    const int cc = capability(d);
    switch (a) {
        case 1: case 2: case 3: *v = 1024; break;
        case 8: *v = 48 << 10; break;
        case 10: *v = 32; break;
        case 16: *v = 8; break;
        case 38: *v = 4 << 20; break;
        case 75: *v = cc / 10; break;
        case 76: *v = cc % 10; break;
        case 97: *v = most_shared(d); break;
        case 115: *v = (int)number("STANDIN_POOLS", 1); break;
        default: *v = 0;
    }
    return SUCCESS;
})
API(cuDevicePrimaryCtxRetain, (P* c, int d), { *c = (P)(uintptr_t)(0x1000 + d); return SUCCESS; })
API(cuDevicePrimaryCtxRelease_v2, (int), { return SUCCESS; })
API(cuCtxSetCurrent, (P c), { current = c; return SUCCESS; })
API(cuCtxGetCurrent, (P* c), { *c = current; return SUCCESS; })
API(cuCtxSynchronize, (), { NOT_IN_CAPTURE return flush_all(); })
API(cuStreamCreate, (P* s, U), { *s = new_stream(); return SUCCESS; })
API(cuStreamDestroy_v2, (P s), { drop_stream((Stream*)s); return SUCCESS; })
API(cuStreamSynchronize, (P s), { NOT_IN_CAPTURE Stream* q = stream_of(s); return flush(q, q->queued); })
API(cuStreamWaitEvent, (P s, P e, U), { auto* v = (Event*)e; if (v->stream) push(stream_of(s), Op{Op::WAIT, nullptr, v->stream, v->until}); return SUCCESS; })
API(cuStreamIsCapturing, (P s, int* v), { *v = stream_of(s)->capturing; return SUCCESS; })
API(cuStreamBeginCapture_v2, (P s, int), { begin_capture(stream_of(s)); return SUCCESS; })
API(cuStreamEndCapture, (P s, P* g), { return end_capture(stream_of(s), g); })
API(cuGraphInstantiateWithFlags, (P* x, P g, unsigned long long), { *x = new std::vector<Op>(*(std::vector<Op>*)g); return SUCCESS; })
API(cuGraphLaunch, (P x, P s), { launch_graph(stream_of(s), *(std::vector<Op>*)x); return SUCCESS; })
API(cuGraphDestroy, (P g), { delete (std::vector<Op>*)g; return SUCCESS; })
API(cuGraphExecDestroy, (P x), { delete (std::vector<Op>*)x; return SUCCESS; })
API(cuEventCreate, (P* e, U), { *e = new Event; return SUCCESS; })
API(cuEventDestroy_v2, (P e), { delete (Event*)e; return SUCCESS; })
API(cuEventRecord, (P e, P s), { auto* q = stream_of(s); *(Event*)e = {q, q->queued}; return SUCCESS; })
API(cuEventQuery, (P e), { auto* v = (Event*)e; return v->stream ? flush(v->stream, v->until) : SUCCESS; })
API(cuEventSynchronize, (P e), { NOT_IN_CAPTURE auto* v = (Event*)e; return v->stream ? flush(v->stream, v->until) : SUCCESS; })
API(cuMemGetInfo_v2, (size_t* f, size_t* t), { *t = memory_total(); *f = *t - memory_used(); return SUCCESS; })
API(cuMemAlloc_v2, (uintptr_t* p, size_t n), { NOT_IN_CAPTURE return allocate(p, n, false); })
API(cuMemAllocAsync, (uintptr_t* p, size_t n, P), { NOT_IN_CAPTURE return allocate(p, n, false); })
API(cuMemFree_v2, (uintptr_t p), { NOT_IN_CAPTURE flush_all(); return release(p); })
API(cuMemFreeAsync, (uintptr_t p, P s), { push(stream_of(s), [=] { return release(p); }); return SUCCESS; })
API(cuDeviceGetDefaultMemPool, (P* p, int d), { *p = (P)(uintptr_t)(0x2000 + d); return SUCCESS; })
API(cuMemPoolSetAttribute, (P, int, P), { return SUCCESS; })
API(cuMemHostAlloc, (P* p, size_t n, U), { NOT_IN_CAPTURE return allocate((uintptr_t*)p, n, true); })
API(cuMemHostGetDevicePointer_v2, (uintptr_t* d, P h, U), { *d = (uintptr_t)h; return SUCCESS; })
API(cuMemFreeHost, (P p), { NOT_IN_CAPTURE flush_all(); return release((uintptr_t)p); })
API(cuMemcpyHtoDAsync_v2, (uintptr_t d, uintptr_t s, size_t n, P st), {
    // Pageable memory is read before the call returns, pinned memory when the copy runs.
    if (is_pinned(s)) { push(stream_of(st), [=] { return copy(d, s, n, true, false); }); return SUCCESS; }
    auto staged = std::make_shared<std::vector<char>>((char*)s, (char*)s + n);
    push(stream_of(st), [=] { return copy(d, (uintptr_t)staged->data(), n, true, false); });
    return SUCCESS;
})
API(cuMemcpyDtoHAsync_v2, (uintptr_t d, uintptr_t s, size_t n, P st), { push(stream_of(st), [=] { return copy(d, s, n, false, true); }); return SUCCESS; })
API(cuMemcpyDtoDAsync_v2, (uintptr_t d, uintptr_t s, size_t n, P st), { push(stream_of(st), [=] { return copy(d, s, n, true, true); }); return SUCCESS; })
API(cuMemsetD8Async, (uintptr_t d, unsigned char v, size_t n, P st), { push(stream_of(st), [=] { return fill(d, v, n); }); return SUCCESS; })
API(cuModuleLoadData, (P* m, const uint8_t* image), { NOT_IN_CAPTURE return load(image, (Module**)m); })
API(cuModuleUnload, (P), { return SUCCESS; })
API(cuModuleGetFunction, (P* f, P m, const char* n), { return find((Module*)m, n, (Kernel**)f); })
API(cuFuncSetAttribute, (P f, int a, int v), {
    if (a != 8) return SUCCESS;
    const int most = most_shared((int)(uintptr_t)current - 0x1000);
    if (v < 0 || v > most) return INVALID_VALUE;
    ((Kernel*)f)->max_dynamic = v;
    ((Kernel*)f)->max_shared = most;
    return SUCCESS;
})
API(cuLaunchKernel, (P f, U gx, U gy, U gz, U bx, U by, U bz, U shared, P s, P* args, P*), {
    return launch((Kernel*)f, {gx, gy, gz}, {bx, by, bz}, shared, stream_of(s), args);
})

// NVRTC 13 asks the driver for its private tables, and goes on without where it has none.
extern "C" int cuGetExportTable(const void**, const void*) { return NOT_FOUND; }

static const char* name_of(int e) {
    switch (e) {
        case 0: return "CUDA_SUCCESS";
        case 1: return "CUDA_ERROR_INVALID_VALUE";
        case 2: return "CUDA_ERROR_OUT_OF_MEMORY";
        case 100: return "CUDA_ERROR_NO_DEVICE";
        case 101: return "CUDA_ERROR_INVALID_DEVICE";
        case 200: return "CUDA_ERROR_INVALID_IMAGE";
        case 500: return "CUDA_ERROR_NOT_FOUND";
        case 700: return "CUDA_ERROR_ILLEGAL_ADDRESS";
        case 719: return "CUDA_ERROR_LAUNCH_FAILED";
        case 900: return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
        case 901: return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
        default: return "CUDA_ERROR_UNKNOWN";
    }
}
extern "C" int cuGetErrorName(int e, const char** s) { *s = name_of(e); return 0; }
extern "C" int cuGetErrorString(int e, const char** s) { *s = "as the stand-in has it"; return 0; }

// ---- NVRTC
extern "C" int nvrtcVersion(int* a, int* b) { *a = 13; *b = 0; return 0; }
extern "C" const char* nvrtcGetErrorString(int e) { return e == 0 ? "NVRTC_SUCCESS" : e == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR"; }
extern "C" int nvrtcGetNumSupportedArchs(int* n) { *n = 4; return 0; }
extern "C" int nvrtcGetSupportedArchs(int* a) { const int all[] = {75, 80, 86, 90}; memcpy(a, all, sizeof all); return 0; }
RTC(nvrtc, "sm_")
RTC_IMAGE(nvrtc, CUBIN)
RTC_IMAGE(nvrtc, PTX)
