// Where the runner's callers put rows of weights and bytes of scales, and where the kernels want them.

#pragma once

#include <cstddef>

namespace situ {

// Weights are stored with their rows shuffled in groups of 32. Row that stored row `stored` holds.
// For FC1 these are rows of the interleaved matrix: row 2j is up j, row 2j + 1 is gate j.
__host__ __device__ inline int row_of_stored(int stored) {
  return stored / 32 * 32 + 4 * (stored % 8) + stored % 32 / 8;
}

// A thread of an m16n8k16 MMA holds rows g and g + 8 of each 16: rows 2g and 2g + 1 are put there, so
// that the up and gate values (FC1), or neighbours in memory (FC2), meet in one thread.
__host__ __device__ inline int mma_row_of_row(int row) {
  return row / 16 * 16 + row % 2 * 8 + row % 16 / 2;
}

// Byte of the scale of (row, block) in a matrix of `blocks` blocks a row, 128x4-interleaved: tiles of
// 128 rows and 4 blocks, 512 bytes each. `blocks` is a multiple of 4.
__host__ __device__ inline size_t interleaved_scale(int row, int block, int blocks) {
  const size_t tile = static_cast<size_t>(row / 128) * (blocks / 4) + block / 4;
  return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
}

}  // namespace situ
