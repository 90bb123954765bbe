// What a GEMM kernel is launched with. Host and device code.

#pragma once

#include <cstdint>

namespace situ {

// Rows of one CTA's tile, in rows of the weights. Its columns are tokens: the kernel's tile_n.
constexpr int kTileRows = 128;

// The experts' tokens lie one expert after the other, each expert padded to whole tiles of tile_n.
// The grid is one-dimensional: rows / kTileRows CTAs for each token tile; those past `tile_count`
// return at once.
struct GemmParams {
  const uint8_t* weights;         // MXFP4 [experts, rows, depth / 2], rows shuffled
  const uint8_t* weight_scales;   // [experts, rows, depth / 32], 128x4-interleaved
  const void* input;              // bf16 or e4m3 [*, depth]
  const uint8_t* input_scales;    // [*, depth / 32], linear; MXFP8 input only
  const int32_t* input_rows;      // FC1: input row of each padded row, -1 for padding. FC2: null
  void* output;                   // FC1: bf16 or e4m3 [padded rows, rows / 2]. FC2: bf16 [.., rows]
  uint8_t* output_scales;         // FC1 with MXFP8 output: [padded rows, rows / 64], linear
  const float* beta;              // FC1: SiTU's beta, [experts]
  const float* linear_beta;       // FC1: [experts]
  const int32_t* tile_expert;     // local expert of each token tile
  const int32_t* tile_count;      // [1]
  int32_t rows;                   // a multiple of kTileRows
  int32_t depth;                  // a multiple of 128
};

}  // namespace situ
