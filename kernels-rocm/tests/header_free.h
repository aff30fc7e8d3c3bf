// What kernels use of HIP, from clang's builtins: for `clang++ -x hip -nogpuinc -nogpulib` on a machine without any part of
// ROCm. For compiling, not for running: the functions of libm are here by their cheapest instructions.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(threads, ...) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define __align__(n) __attribute__((aligned(n)))
#define HF static __device__ __forceinline__
typedef __SIZE_TYPE__ size_t;

#define HF_INDEX(name, X, Y, Z)                                                                                         \
    struct name {                                                                                                       \
        struct { __device__ operator unsigned() const { return X; } } x;                                                \
        struct { __device__ operator unsigned() const { return Y; } } y;                                                \
        struct { __device__ operator unsigned() const { return Z; } } z;                                                \
    }
HF_INDEX(hf_thread, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z());
HF_INDEX(hf_block, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z());
HF_INDEX(hf_threads, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(), __builtin_amdgcn_workgroup_size_z());
HF_INDEX(hf_blocks, __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(), __builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z());
#define threadIdx hf_thread{}
#define blockIdx hf_block{}
#define blockDim hf_threads{}
#define gridDim hf_blocks{}

HF void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
HF void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }
HF int hf_lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }
template <class T> HF T hf_of_lane(T v, int lane) {
    int words[sizeof(T) / 4];
    __builtin_memcpy(words, &v, sizeof v);
    for (unsigned i = 0; i < sizeof(T) / 4; i++) words[i] = __builtin_amdgcn_ds_bpermute(lane << 2, words[i]);
    __builtin_memcpy(&v, words, sizeof v);
    return v;
}
template <class T> HF T __shfl_xor(T v, int m, int) { return hf_of_lane(v, hf_lane() ^ m); }
template <class T> HF T __shfl_up(T v, int d, int) { return hf_of_lane(v, hf_lane() < d ? hf_lane() : hf_lane() - d); }
template <class T> HF T __shfl(T v, int lane, int) { return hf_of_lane(v, lane); }
HF unsigned long long __ballot(int p) { return __builtin_amdgcn_uicmp(p, 0, 33); }

HF float __uint_as_float(unsigned u) { return __builtin_bit_cast(float, u); }
HF unsigned __float_as_uint(float f) { return __builtin_bit_cast(unsigned, f); }
HF float rsqrtf(float x) { return __builtin_amdgcn_rsqf(x); }
HF float expf(float x) { return __builtin_amdgcn_exp2f(x * 1.442695f); }
HF float logf(float x) { return __builtin_amdgcn_logf(x) * 0.693147f; }
HF float tanhf(float x) { return 1.f - 2.f / (1.f + expf(2.f * x)); }
HF float erfcf(float x) { return expf(-x * x); }
HF float rintf(float x) { return __builtin_rintf(x); }
HF float fabsf(float x) { return __builtin_fabsf(x); }

HF unsigned atomicCAS(unsigned* p, unsigned expected, unsigned v) {
    __hip_atomic_compare_exchange_strong(p, &expected, v, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    return expected;
}
template <class T> HF T atomicAdd(T* p, T v) { return __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
HF unsigned atomicOr(unsigned* p, unsigned v) { return __hip_atomic_fetch_or(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
HF unsigned atomicExch(unsigned* p, unsigned v) { return __hip_atomic_exchange(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
