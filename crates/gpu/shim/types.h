// Element types by the numbers that the host uses for them (DType), and their conversions. Arithmetic is in f32.
#ifndef PK_TYPES_H
#define PK_TYPES_H
#include "pk.h"

struct f16 { u16 x; };
struct bf16 { u16 x; };
struct f8 { u8 x; }; // e4m3fn

enum { F32 = 0, F16 = 1, BF16 = 2, I8 = 3, U8 = 4, I32 = 5, I64 = 6, U32 = 7, F8 = 8, Q4_0 = 9, Q4_1 = 10, Q5_0 = 11, Q5_1 = 12, Q8_0 = 13, Q4_K = 14, Q5_K = 15, Q6_K = 16 };
template <int N> struct pk_type;
template <> struct pk_type<F32> { typedef float type; };
template <> struct pk_type<F16> { typedef f16 type; };
template <> struct pk_type<BF16> { typedef bf16 type; };
template <> struct pk_type<I8> { typedef i8 type; };
template <> struct pk_type<U8> { typedef u8 type; };
template <> struct pk_type<I32> { typedef int type; };
template <> struct pk_type<I64> { typedef i64 type; };
template <> struct pk_type<U32> { typedef u32 type; };
template <> struct pk_type<F8> { typedef f8 type; };

// ---- to f32
PK_DEV float pk_load(float v) { return v; }
PK_DEV float pk_load(i8 v) { return (float)v; }
PK_DEV float pk_load(bf16 v) { return __uint_as_float((u32)v.x << 16); }
PK_DEV float pk_load(f16 v) {
#if defined(PK_CUDA)
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.x));
    return f;
#else
    _Float16 h;
    __builtin_memcpy(&h, &v.x, 2);
    return (float)h;
#endif
}
PK_DEV float pk_load(f8 v) {
#if defined(__gfx950__) || defined(__gfx1200__) || defined(__gfx1201__)
    return __builtin_amdgcn_cvt_f32_fp8(v.x, 0);
#elif defined(__gfx942__)
    // This family's own 8-bit floats (fnuz) have another bias, so half of the value; 0x80 is their NaN, and 0x7f a number.
    const float f = 2.f * __builtin_amdgcn_cvt_f32_fp8(v.x, 0), zero = __uint_as_float((u32)(v.x & 0x80u) << 24);
    const u32 size = v.x & 0x7fu;
    return size == 0 ? zero : size == 0x7fu ? pk_nan() : f;
#else
    const u32 e = v.x >> 3 & 15u, m = v.x & 7u, sign = (u32)(v.x & 0x80u) << 24;
    if ((v.x & 0x7fu) == 0x7fu) return pk_nan();
    const float f = e == 0 ? (float)m * 0.001953125f : __uint_as_float((e + 120u) << 23 | m << 20);
    return __uint_as_float(__float_as_uint(f) | sign);
#endif
}

// ---- from f32: to nearest, ties to even; 8-bit types saturate
template <class T> struct pk_to;
template <> struct pk_to<float> { static PK_DEV_M float of(float f) { return f; } };
template <> struct pk_to<bf16> {
    static PK_DEV_M bf16 of(float f) {
        const u32 u = __float_as_uint(f);
        if ((u & 0x7fffffffu) > 0x7f800000u) return bf16{(u16)0x7fff};
        return bf16{(u16)((u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
    }
};
template <> struct pk_to<f16> {
    static PK_DEV_M f16 of(float f) {
        f16 r;
#if defined(PK_CUDA)
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.x) : "f"(f));
#else
        _Float16 h = (_Float16)f;
        __builtin_memcpy(&r.x, &h, 2);
#endif
        return r;
    }
};
template <> struct pk_to<i8> {
    static PK_DEV_M i8 of(float f) {
        if (f != f) return 0;
        const float r = rintf(f);
        return (i8)(int)(r < -128.f ? -128.f : r > 127.f ? 127.f : r);
    }
};
template <> struct pk_to<f8> {
    static PK_DEV_M f8 of(float f) {
        const u32 u = __float_as_uint(f), sign = u >> 24 & 0x80u;
        const float a = __uint_as_float(u & 0x7fffffffu);
        if (a != a) return f8{(u8)(sign | 0x7fu)};
        if (a >= 448.f) return f8{(u8)(sign | 0x7eu)};
        if (a < 0.015625f) return f8{(u8)(sign | (u32)rintf(a * 512.f))};
        u32 bits = __float_as_uint(a);
        bits += 0x7ffffu + (bits >> 20 & 1u);
        const u32 code = (bits >> 20) - (120u << 3);
        return f8{(u8)(sign | (code > 0x7eu ? 0x7eu : code))};
    }
};

// A place of a float type that is known at run time only.
PK_DEV float pk_load_as(int type, const void* p, i64 i) {
    return type == F32 ? ((const float*)p)[i] : type == F16 ? pk_load(((const f16*)p)[i]) : pk_load(((const bf16*)p)[i]);
}
PK_DEV void pk_store_as(int type, void* p, i64 i, float v) {
    if (type == F32) ((float*)p)[i] = v;
    else if (type == F16) ((f16*)p)[i] = pk_to<f16>::of(v);
    else ((bf16*)p)[i] = pk_to<bf16>::of(v);
}

// A dense index tensor of any index type.
PK_DEV i64 pk_index(const void* p, int type, i64 i) {
    return type == I64 ? ((const i64*)p)[i] : type == U32 ? (i64)((const u32*)p)[i] : (i64)((const int*)p)[i];
}

// ---- 16 bytes at a time
template <class T, int N> struct alignas(sizeof(T) * N) pk_vec { T v[N]; };
template <class T> struct pk_lanes { enum { N = 16 / (int)sizeof(T) }; };
PK_DEV bool pk_aligned(const void* p) { return ((u64)p & 15) == 0; }
// Whether rows that start at `p` and lie `stride` elements apart can all be read 16 bytes at a time.
template <class T> PK_DEV bool pk_rows_aligned(const T* p, i64 stride) { return pk_aligned(p) && stride * (i64)sizeof(T) % 16 == 0; }
#endif
