// Enough of CUDA's device side to run the kernels' own code on the host: every CUDA thread of a CTA is
// a fiber, CTAs run one after the other.

#pragma once

#include <cstdint>

struct EmulatedIndex {
  unsigned x, y, z;
};
extern EmulatedIndex threadIdx;
extern EmulatedIndex blockIdx;

void __syncthreads();
int __syncthreads_count(int predicate);
unsigned __ballot_sync(unsigned mask, int predicate);
float __shfl_xor_sync(unsigned mask, float value, int distance);
int __reduce_add_sync(unsigned mask, int value);

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

template <class T>
T __ldg(const T* address) {
  return *address;
}

namespace emulator {

// Every lane gives a pointer and gets those of its warp. To be followed by `warp_done`: until then the
// pointers stay valid.
const void* const* warp_exchange(const void* mine);
void warp_done();

// Runs kernel(params, shared) for every thread of every CTA. Shared memory begins as NaNs; writing
// past it ends the process, and so does a barrier that not all threads reach.
using KernelFunction = void (*)(const void* params, unsigned char* shared);
void run(KernelFunction kernel, unsigned grid_x, unsigned grid_y, unsigned threads,
         unsigned shared_bytes, const void* params);

}  // namespace emulator
