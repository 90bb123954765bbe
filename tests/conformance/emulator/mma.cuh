// Stands in for kernels/mma.cuh: the same operation, from the PTX manual's description of mma.m16n8k16.

#pragma once

#include <cuda_bf16.h>

#include <cstring>

namespace situ {
namespace emulated {

// A register holds two bf16, the lower index in the lower half.
inline float half_of(uint32_t pair, int index) {
  const uint32_t bits = (index ? pair >> 16 : pair & 0xffffu) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace emulated

// A, 16x16: element i of 8 is at row g for i in {0, 1, 4, 5} else g + 8, and at column
// 2t + (i & 1), plus 8 for i >= 4. B, 16x8: element i of 4 is at row 2t + (i & 1), plus 8 for i >= 2,
// and at column g. C, 16x8: element i of 4 is at row g, or g + 8 for i >= 2, and at column 2t + (i & 1).
inline void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  struct Operands {
    const uint32_t* a;
    const uint32_t* b;
  } mine{a, b};
  const void* const* lanes = emulator::warp_exchange(&mine);
  float left[16][16];
  float right[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const Operands& its = *static_cast<const Operands*>(lanes[lane]);
    const int g = lane >> 2;
    const int t = lane & 3;
    for (int i = 0; i < 8; ++i) {
      const bool upper = i == 0 || i == 1 || i == 4 || i == 5;
      const int column = 2 * t + (i & 1) + (i >= 4 ? 8 : 0);
      left[upper ? g : g + 8][column] = emulated::half_of(its.a[i / 2], i & 1);
    }
    for (int i = 0; i < 4; ++i) {
      right[2 * t + (i & 1) + (i >= 2 ? 8 : 0)][g] = emulated::half_of(its.b[i / 2], i & 1);
    }
  }
  const int g = static_cast<int>(threadIdx.x % 32) >> 2;
  const int t = static_cast<int>(threadIdx.x % 32) & 3;
  for (int i = 0; i < 4; ++i) {
    float sum = c[i];
    for (int k = 0; k < 16; ++k) sum += left[i >= 2 ? g + 8 : g][k] * right[k][2 * t + (i & 1)];
    c[i] = sum;
  }
  emulator::warp_done();
}

}  // namespace situ
