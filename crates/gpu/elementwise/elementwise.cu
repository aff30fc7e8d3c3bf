// out = f(a, b) over tensors of one shape: densely, 16 bytes of the output a thread, or along any strides.
#include "types.h"
typedef pk_type<PK_A>::type A;
typedef pk_type<PK_O>::type O;
enum { ADD = 0, MUL = 1, SCALE = 2, CAST = 3, COPY = 4, N = pk_lanes<O>::N };

template <int OP, class A, class O> struct pk_apply {
    static PK_DEV_M O of(A a, A b, float factor) {
        if (OP == ADD) return pk_to<O>::of(pk_load(a) + pk_load(b));
        if (OP == MUL) return pk_to<O>::of(pk_load(a) * pk_load(b));
        if (OP == SCALE) return pk_to<O>::of(pk_load(a) * factor);
        return pk_to<O>::of(pk_load(a));
    }
};
// Bits as they are, of any type.
template <class A> struct pk_apply<COPY, A, A> {
    static PK_DEV_M A of(A a, A, float) { return a; }
};
typedef pk_apply<PK_F, A, O> F;

struct pk_walk {
    i64 shape[5], a[5], b[5], out[5];
};

PK_KERNEL(elementwise, 256, pk_call call, const A* a, const A* b, O* out, i64 count, float factor, pk_walk walk) {
    PK_ENTER(call);
    const i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x, step = (i64)gridDim.x * blockDim.x;
#if PK_DENSE
    typedef pk_vec<A, N> VA;
    typedef pk_vec<O, N> VO;
    const i64 vectors = (u64)a % sizeof(VA) == 0 && (u64)b % sizeof(VA) == 0 && pk_aligned(out) ? count / N : 0;
    for (i64 i = first; i < vectors; i += step) {
        const VA u = ((const VA*)a)[i], v = b ? ((const VA*)b)[i] : u;
        VO o;
#pragma unroll
        for (int k = 0; k < N; ++k) o.v[k] = F::of(u.v[k], v.v[k], factor);
        ((VO*)out)[i] = o;
    }
    for (i64 i = vectors * N + first; i < count; i += step) out[i] = F::of(a[i], b ? b[i] : a[i], factor);
#else
    for (i64 n = first; n < count; n += step) {
        i64 rest = n, at = 0, bt = 0, ot = 0;
#pragma unroll
        for (int axis = 4; axis >= 0; --axis) {
            const i64 along = rest % walk.shape[axis];
            rest /= walk.shape[axis];
            at += along * walk.a[axis];
            bt += along * walk.b[axis];
            ot += along * walk.out[axis];
        }
        out[ot] = F::of(a[at], b ? b[bt] : a[at], factor);
    }
#endif
}
