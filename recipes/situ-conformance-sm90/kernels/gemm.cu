// One kernel of the bundle: compiled once for each name and architecture of kernels.toml.
//
// SITU_NAME: the kernel's name. SITU_GATED, SITU_MX, SITU_TILE_N, SITU_TILE_K: its properties.
// SITU_THREADS, SITU_SHARED_BYTES: what the kernel table tells the runner to launch it with.

#include "gemm.cuh"

using K = situ::Kernel<SITU_GATED, SITU_MX, SITU_TILE_N, SITU_TILE_K>;
static_assert(K::kThreads == SITU_THREADS, "the kernel table launches another number of threads");
static_assert(K::kSharedBytes == SITU_SHARED_BYTES, "the kernel table gives other shared memory");

extern "C" __global__ void __launch_bounds__(K::kThreads)
    SITU_NAME(const __grid_constant__ situ::GemmParams params) {
  extern __shared__ __align__(16) unsigned char shared[];
  situ::gemm<K>(params, shared);
}
