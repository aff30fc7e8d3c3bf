// One kernel source for NVRTC (CUDA), hipRTC (HIP) and host C++ (the SIMT emulation of the tests). No vendor header.
// The host passes -DPK_WARP: the width that the device reports.
#ifndef PK_H
#define PK_H
#if defined(PK_EMU)
#  include "pk_emu.h"
#elif defined(__HIP__) || defined(__HIPCC_RTC__)
#  define PK_HIP 1
#elif defined(__CUDACC__) || defined(__CUDACC_RTC__)
#  define PK_CUDA 1
#else
#  error "pk.h knows NVRTC, hipRTC and the emulation (-DPK_EMU)"
#endif
#if defined(__GFX9__)
static_assert(PK_WARP == 64, "gfx9 has 64 lanes");
#elif defined(__AMDGCN__)
static_assert(PK_WARP == 32, "kernels are compiled for wavefronts of 32 lanes from gfx10 on");
#elif defined(__CUDA_ARCH__)
static_assert(PK_WARP == 32, "CUDA has 32 lanes");
#endif

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long i64;

#if !defined(PK_EMU)
#  define PK_DEV      static __device__ __forceinline__
#  define PK_DEV_M    __device__ __forceinline__
#  define PK_RESTRICT __restrict__
#  define PK_SYNC()   __syncthreads()
#  define PK_SHARED(T, name, dims) __shared__ __align__(16) T name dims
#  define PK_DYN_SHARED(T, name)                                                                                        \
      extern __shared__ __align__(16) unsigned char pk_dynamic[];                                                       \
      T* name = reinterpret_cast<T*>(pk_dynamic)
#  define PK_KERNEL(name, threads, ...) extern "C" __global__ __launch_bounds__(threads) void name(__VA_ARGS__)
// With so many blocks on a multiprocessor at once: registers for no more. HIP counts wavefronts on each of a compute unit's
// four SIMDs instead.
#  if defined(PK_HIP)
#    define PK_KERNEL_OF(name, threads, blocks, ...)                                                                      \
         extern "C" __global__ __launch_bounds__(threads, ((blocks) * (threads) / PK_WARP + 3) / 4) void name(__VA_ARGS__)
#  else
#    define PK_KERNEL_OF(name, threads, blocks, ...) extern "C" __global__ __launch_bounds__(threads, blocks) void name(__VA_ARGS__)
#  endif
#endif

// ---- warp operations: all lanes together, the only form that is portable
#if defined(PK_CUDA)
template <class T> PK_DEV T pk_shfl_xor(T v, int m) { return __shfl_xor_sync(0xffffffffu, v, m); }
template <class T> PK_DEV T pk_shfl_up(T v, int d) { return __shfl_up_sync(0xffffffffu, v, d); }
template <class T> PK_DEV T pk_shfl(T v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
PK_DEV u64 pk_ballot(int p) { return __ballot_sync(0xffffffffu, p); }
PK_DEV void pk_warp_sync() { __syncwarp(); }
PK_DEV int pk_popcount(u64 v) { return __popcll(v); }
PK_DEV int pk_dot4(int a, int b, int c) { return __dp4a(a, b, c); }
#elif defined(PK_HIP)
template <class T> PK_DEV T pk_shfl_xor(T v, int m) { return __shfl_xor(v, m, PK_WARP); }
template <class T> PK_DEV T pk_shfl_up(T v, int d) { return __shfl_up(v, d, PK_WARP); }
template <class T> PK_DEV T pk_shfl(T v, int lane) { return __shfl(v, lane, PK_WARP); }
PK_DEV u64 pk_ballot(int p) { return __ballot(p); }
PK_DEV void pk_warp_sync() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
PK_DEV int pk_popcount(u64 v) { return __builtin_popcountll(v); }
PK_DEV int pk_dot4(int a, int b, int c) {
#if defined(__GFX11__) || defined(__GFX12__)
    return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#elif defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__) || defined(__gfx1030__)
    return __builtin_amdgcn_sdot4(a, b, c, false);
#else
    for (int i = 0; i < 4; ++i) c += (int)(i8)(a >> 8 * i) * (int)(i8)(b >> 8 * i);
    return c;
#endif
}
#endif

// ---- what every kernel gets first: where to report, and who it is
struct pk_report {
    u32 set;     // 1: value and limit are being written, 2: they are there
    u32 op;      // whose fault it is
    i64 value;
    i64 limit;
    u32 running; // the op that started last
};
struct pk_call {
    pk_report* report;
    u32 op;
};
// The first statement of a kernel: a sticky error after this is this op's.
#define PK_ENTER(call)                                                                                                  \
    if (threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0) (call).report->running = (call).op
// An index that a kernel read from a tensor and found out of range; the first is kept.
PK_DEV void pk_fault(const pk_call& call, i64 value, i64 limit) {
    if (atomicCAS(&call.report->set, 0u, 1u) == 0u) {
        call.report->op = call.op;
        call.report->value = value;
        call.report->limit = limit;
        __threadfence_system();
        call.report->set = 2;
    }
}
#define PK_NAN_ROW 0x7fffffffffffffffll

PK_DEV i64 pk_min(i64 a, i64 b) { return a < b ? a : b; }
PK_DEV i64 pk_max(i64 a, i64 b) { return a > b ? a : b; }
PK_DEV float pk_infinity() { return __uint_as_float(0x7f800000u); }
PK_DEV float pk_nan() { return __uint_as_float(0x7fffffffu); }
#endif
