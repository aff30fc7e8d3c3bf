// The kernels' side of the SIMT emulation: what pk.h means when a kernel is compiled by a host C++ compiler. Every GPU
// thread is a fiber with a stack of its own; the engine (engine.cpp) runs them and answers through pk_api. Small on
// purpose: it is compiled again for every kernel.
#ifndef PK_EMU_H
#define PK_EMU_H
#include <math.h>
#include <string.h>

#ifndef PK_WARP
#  error "the emulation needs -DPK_WARP=32 or 64"
#endif

struct pk_dim { unsigned x, y, z; };
enum pk_kind { PK_SHFL, PK_BALLOT, PK_GATHER };

// What the engine does for a kernel. `line` is where the kernel asks, for its reports.
struct pk_api {
    void (*barrier)(int line);
    unsigned long long (*warp)(int kind, unsigned long long value, int src, int line);
    // Gives n words of each lane to every lane: all[lane * n + i].
    void (*gather)(const unsigned long long* mine, int n, unsigned long long* all, int line);
    void* (*shared)(const void* tag, unsigned bytes);
    void (*async_copy)(void* to, const void* from, unsigned bytes);
    void (*async_wait)(int left);
    void (*async_commit)();
};

struct pk_thread {
    pk_dim tid;
    unsigned lane;
    const pk_dim *bid, *bdim, *gdim;
    void* dynamic;
    const pk_api* api;
};

// A fiber's stack is aligned to its size, and the thread is the first word of it.
enum { PK_STACK = 256 << 10 };
static inline __attribute__((always_inline)) pk_thread* pk_me() {
    return *(pk_thread**)((unsigned long long)__builtin_frame_address(0) & ~(unsigned long long)(PK_STACK - 1));
}

#define threadIdx (pk_me()->tid)
#define blockIdx  (*pk_me()->bid)
#define blockDim  (*pk_me()->bdim)
#define gridDim   (*pk_me()->gdim)

#define PK_DEV      static inline
#define PK_DEV_M    inline
#define PK_RESTRICT __restrict__
#define PK_SYNC()   pk_me()->api->barrier(__LINE__)
#define PK_SHARED(T, name, dims)                                                                                        \
    typedef T name##_type dims;                                                                                         \
    static char name##_tag;                                                                                             \
    name##_type& name = *(name##_type*)pk_me()->api->shared(&name##_tag, sizeof(name##_type))
#define PK_DYN_SHARED(T, name) T* name = (T*)pk_me()->dynamic

struct pk_param { unsigned size, is_pointer; };
template <class T> struct pk_is_pointer { enum { value = 0 }; };
template <class T> struct pk_is_pointer<T*> { enum { value = 1 }; };
template <class T> struct pk_bare { typedef T type; };
template <class T> struct pk_bare<const T> { typedef T type; };
template <int... I> struct pk_list {};
template <int N, int... I> struct pk_count : pk_count<N - 1, N - 1, I...> {};
template <int... I> struct pk_count<0, I...> { typedef pk_list<I...> type; };
template <class... A, int... I> void pk_unpack(void (*f)(A...), void** a, pk_list<I...>) {
    f(*static_cast<typename pk_bare<A>::type*>(a[I])...);
}
template <class... A> void pk_invoke(void (*f)(A...), void** a) { pk_unpack(f, a, typename pk_count<sizeof...(A)>::type()); }
template <class... A> const pk_param* pk_params(void (*)(A...), unsigned* n) {
    static const pk_param p[] = {{(unsigned)sizeof(A), pk_is_pointer<A>::value}..., {0, 0}};
    *n = sizeof...(A);
    return p;
}
#define PK_KERNEL_OF(name, threads, blocks, ...) PK_KERNEL(name, threads, __VA_ARGS__)
#define PK_EXPORT extern "C" __attribute__((visibility("default")))
#define PK_KERNEL(name, threads, ...)                                                                                   \
    static void name##_body(__VA_ARGS__);                                                                               \
    PK_EXPORT void name(void** args) { pk_invoke(&name##_body, args); }                                                   \
    PK_EXPORT const pk_param* name##__params(unsigned* n) { return pk_params(&name##_body, n); }                        \
    PK_EXPORT unsigned name##__bound() { return threads; }                                                              \
    PK_EXPORT unsigned name##__warp() { return PK_WARP; }                                                               \
    static void name##_body(__VA_ARGS__)

template <class T> PK_DEV T pk_shfl_at(T v, int lane, int line) {
    static_assert(sizeof(T) <= 8, "");
    unsigned long long word = 0;
    memcpy(&word, &v, sizeof v);
    word = pk_me()->api->warp(PK_SHFL, word, lane, line);
    memcpy(&v, &word, sizeof v);
    return v;
}
template <class T> PK_DEV T pk_shfl_xor(T v, int m, int s = __builtin_LINE()) { return pk_shfl_at(v, (int)pk_me()->lane ^ m, s); }
template <class T> PK_DEV T pk_shfl_up(T v, int d, int s = __builtin_LINE()) {
    int lane = (int)pk_me()->lane - d;
    return pk_shfl_at(v, lane >= 0 ? lane : (int)pk_me()->lane, s);
}
template <class T> PK_DEV T pk_shfl(T v, int lane, int s = __builtin_LINE()) { return pk_shfl_at(v, lane, s); }
PK_DEV unsigned long long pk_ballot(int p, int s = __builtin_LINE()) { return pk_me()->api->warp(PK_BALLOT, p != 0, 0, s); }

PK_DEV void pk_warp_sync(int s = __builtin_LINE()) { pk_me()->api->warp(PK_BALLOT, 0, 0, s); }

PK_DEV int pk_popcount(unsigned long long v) { return __builtin_popcountll(v); }

PK_DEV float __uint_as_float(unsigned u) { float f; memcpy(&f, &u, 4); return f; }
PK_DEV unsigned __float_as_uint(float f) { unsigned u; memcpy(&u, &f, 4); return u; }
PK_DEV float rsqrtf(float x) { return 1.0f / sqrtf(x); }

PK_DEV unsigned atomicAdd(unsigned* p, unsigned v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
PK_DEV unsigned atomicOr(unsigned* p, unsigned v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }
PK_DEV unsigned atomicExch(unsigned* p, unsigned v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }
PK_DEV unsigned long long atomicAdd(unsigned long long* p, unsigned long long v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
PK_DEV unsigned atomicCAS(unsigned* p, unsigned expected, unsigned v) {
    __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
PK_DEV void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// Sum of the products of four signed bytes.
PK_DEV int pk_dot4(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += (int)(signed char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i);
    return c;
}

// What AMD's instruction makes of an 8-bit float: OCP's e4m3 on gfx950 and gfx12, before them e4m3fnuz (bias 8; 0x80 is the
// only NaN).
PK_DEV float __builtin_amdgcn_cvt_f32_fp8(unsigned v, int) {
    const int e = v >> 3 & 15, m = v & 7;
#if defined(__gfx942__)
    if (v == 0x80) return NAN;
    const int bias = 8;
#else
    if ((v & 0x7f) == 0x7f) return NAN;
    const int bias = 7;
#endif
    const float a = e ? ldexpf(8 + m, e - bias - 3) : ldexpf(m, 1 - bias - 3);
    return v & 0x80 ? -a : a;
}

// Asynchronous copies land when they are waited for, as late as a device may.
PK_DEV void pk_async_copy16(void* to, const void* from) { pk_me()->api->async_copy(to, from, 16); }
PK_DEV void pk_async_commit() { pk_me()->api->async_commit(); }
template <int LEFT> PK_DEV void pk_async_wait() { pk_me()->api->async_wait(LEFT); }
#endif
