// The GEMM kernel: MXFP4 weights times bf16 or MXFP8 tokens, for one expert's tile of tokens.
//
// Both operands are brought to bfloat16 in shared memory with their scales applied, which is exact
// (E2M1 has one mantissa bit and E4M3 three, scales are powers of two), and multiplied there by
// tensor cores with float32 accumulators.

#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "formats.cuh"
#include "gemm.h"
#include "layouts.cuh"
#include <mma.cuh>

namespace situ {

constexpr int kWarpRows = 32;                           // rows of a warp's part of the tile
constexpr int kWarpsAlongRows = kTileRows / kWarpRows;
constexpr int kRowPadding = 8;                          // bf16 elements; keeps fragment loads off one bank

// A kernel's fixed properties. kGated: FC1, with SiTU. kMx: MXFP8 tokens (and MXFP8 out of FC1).
template <bool kGatedValue, bool kMxValue, int kTileNValue, int kTileKValue>
struct Kernel {
  static constexpr bool kGated = kGatedValue;
  static constexpr bool kMx = kMxValue;
  static constexpr int kTileN = kTileNValue;
  static constexpr int kTileK = kTileKValue;
  static constexpr int kWarpColumns = kTileN < 64 ? kTileN : 64;
  static constexpr int kWarps = kWarpsAlongRows * (kTileN / kWarpColumns);
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kStride = kTileK + kRowPadding;  // bf16 elements of a row in shared memory
  static constexpr int kOperandBytes = 2 * kStride * (kTileRows + kTileN);
  static constexpr int kStagedStride = kTileRows + 2;   // floats of a token's staged products
  static constexpr int kStagedBytes = kGated ? 4 * kStagedStride * kTileN : 0;
  static constexpr int kSharedBytes = kOperandBytes > kStagedBytes ? kOperandBytes : kStagedBytes;
};

__device__ inline uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

// Eight MXFP4 elements, the first in the lowest nibble.
__device__ inline uint4 dequantize_e2m1(uint32_t codes, float scale) {
  uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pairs[i] = pack_bf16(e2m1_of_code(codes >> (8 * i)) * scale,
                         e2m1_of_code(codes >> (8 * i + 4)) * scale);
  }
  return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

// Eight MXFP8 elements, the first in the lowest byte of `low`.
__device__ inline uint4 dequantize_e4m3(uint32_t low, uint32_t high, float scale) {
  uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t two = (i < 2 ? low : high) >> (16 * (i % 2));
    pairs[i] = pack_bf16(e4m3_of_byte(static_cast<uint8_t>(two)) * scale,
                         e4m3_of_byte(static_cast<uint8_t>(two >> 8)) * scale);
  }
  return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

// Weights of kTileRows rows from `depth_start` on; zeros past the depth.
template <class K>
__device__ void load_weights(const GemmParams& params, int expert, int first_row, int depth_start,
                             __nv_bfloat16* tile) {
  constexpr int kTileBlocks = K::kTileK / kScaleBlock;
  const int blocks = params.depth / kScaleBlock;
  const size_t matrix = static_cast<size_t>(expert) * params.rows;
  const uint8_t* scales = params.weight_scales + matrix * blocks;
#pragma unroll 4
  for (int i = threadIdx.x; i < kTileRows * kTileBlocks; i += K::kThreads) {
    const int stored = i / kTileBlocks;
    const int block = depth_start / kScaleBlock + i % kTileBlocks;
    uint4 codes = make_uint4(0, 0, 0, 0);
    float scale = 0.0f;
    if (block < blocks) {
      const size_t row = matrix + first_row + stored;
      codes = __ldg(reinterpret_cast<const uint4*>(params.weights + row * (params.depth / 2)) + block);
      scale = scale_of_byte(__ldg(scales + interleaved_scale(first_row + stored, block, blocks)));
    }
    const int row = mma_row_of_row(row_of_stored(stored));
    uint4* to = reinterpret_cast<uint4*>(tile + row * K::kStride + i % kTileBlocks * kScaleBlock);
    to[0] = dequantize_e2m1(codes.x, scale);
    to[1] = dequantize_e2m1(codes.y, scale);
    to[2] = dequantize_e2m1(codes.z, scale);
    to[3] = dequantize_e2m1(codes.w, scale);
  }
}

// Tokens of a tile from `depth_start` on; zeros past the depth and for padding.
template <class K>
__device__ void load_tokens(const GemmParams& params, int first_token, int depth_start,
                            __nv_bfloat16* tile) {
  constexpr int kElements = K::kMx ? 16 : 8;  // in 16 bytes
  constexpr int kChunks = K::kTileK / kElements;
#pragma unroll 4
  for (int i = threadIdx.x; i < K::kTileN * kChunks; i += K::kThreads) {
    const int column = i / kChunks;
    const int k = depth_start + i % kChunks * kElements;
    const int token = first_token + column;
    const int row = params.input_rows == nullptr ? token : __ldg(params.input_rows + token);
    const bool present = row >= 0 && k < params.depth;
    const size_t element = static_cast<size_t>(row) * params.depth + k;
    uint4* to = reinterpret_cast<uint4*>(tile + column * K::kStride + i % kChunks * kElements);
    if constexpr (K::kMx) {
      uint4 bytes = make_uint4(0, 0, 0, 0);
      float scale = 0.0f;
      if (present) {
        bytes = *reinterpret_cast<const uint4*>(static_cast<const uint8_t*>(params.input) + element);
        scale = scale_of_byte(params.input_scales[element / kScaleBlock]);
      }
      to[0] = dequantize_e4m3(bytes.x, bytes.y, scale);
      to[1] = dequantize_e4m3(bytes.z, bytes.w, scale);
    } else {
      to[0] = present ? *reinterpret_cast<const uint4*>(
                            static_cast<const __nv_bfloat16*>(params.input) + element)
                      : make_uint4(0, 0, 0, 0);
    }
  }
}

// Two bf16 of a row in shared memory.
__device__ inline uint32_t pair_at(const __nv_bfloat16* row, int k) {
  return *reinterpret_cast<const uint32_t*>(row + k);
}

// A warp's products: two MMA tiles of 16 rows by kColumns tiles of 8 tokens.
template <class K>
struct Accumulators {
  static constexpr int kColumns = K::kWarpColumns / 8;
  float value[2][kColumns][4] = {};

  __device__ void multiply(const __nv_bfloat16* weights, const __nv_bfloat16* tokens, int lane) {
    const __nv_bfloat16* weight_row = weights + lane / 4 * K::kStride + lane % 4 * 2;
    const __nv_bfloat16* token_row = tokens + lane / 4 * K::kStride + lane % 4 * 2;
#pragma unroll 4
    for (int k = 0; k < K::kTileK; k += 16) {
      uint32_t a[2][4];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const __nv_bfloat16* upper = weight_row + r * 16 * K::kStride;
        const __nv_bfloat16* lower = upper + 8 * K::kStride;
        a[r][0] = pair_at(upper, k);
        a[r][1] = pair_at(lower, k);
        a[r][2] = pair_at(upper, k + 8);
        a[r][3] = pair_at(lower, k + 8);
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const __nv_bfloat16* column = token_row + c * 8 * K::kStride;
        const uint32_t b[2] = {pair_at(column, k), pair_at(column, k + 8)};
        mma_m16n8k16(value[0][c], a[0], b);
        mma_m16n8k16(value[1][c], a[1], b);
      }
    }
  }

  // Calls use(row, token, even, odd) for each of the thread's values: `row` is even and counts in the
  // warp's part of the tile, `even` and `odd` are the products of rows row and row + 1.
  template <class Use>
  __device__ void for_each(int lane, Use use) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int row = r * 16 + lane / 4 * 2;
        const int token = c * 8 + lane % 4 * 2;
        use(row, token, value[r][c][0], value[r][c][2]);
        use(row, token + 1, value[r][c][1], value[r][c][3]);
      }
    }
  }
};

// Output of FC2: bfloat16, in the order of the rows.
template <class K>
__device__ void store_products(const GemmParams& params, const Accumulators<K>& products,
                               int first_token, int first_row, int lane) {
  __nv_bfloat16* output = static_cast<__nv_bfloat16*>(params.output);
  products.for_each(lane, [&](int row, int token, float even, float odd) {
    const size_t to = static_cast<size_t>(first_token + token) * params.rows + first_row + row;
    *reinterpret_cast<uint32_t*>(output + to) = pack_bf16(even, odd);
  });
}

// Output of FC1 from up and gate products staged as float32 [kTileN, kTileRows]: SiTU, rounded to
// bfloat16 or quantized to MXFP8. A warp takes a block of 32 outputs of one token at a time.
template <class K>
__device__ void store_activated(const GemmParams& params, const float* staged, int expert,
                                int first_token, int first_output) {
  constexpr int kBlocks = kTileRows / 2 / kScaleBlock;
  const int width = params.rows / 2;
  const int lane = threadIdx.x % 32;
  const float beta = params.beta[expert];
  const float linear_beta = params.linear_beta[expert];
  for (int i = threadIdx.x / 32; i < K::kTileN * kBlocks; i += K::kWarps) {
    const int token = i / kBlocks;
    const int within = i % kBlocks * kScaleBlock + lane;
    const float* pair = staged + token * K::kStagedStride + 2 * within;
    const float value = situ(pair[1], pair[0], beta, linear_beta);
    const size_t to = static_cast<size_t>(first_token + token) * width + first_output + within;
    if constexpr (K::kMx) {
      float amax = fabsf(value);
      for (int distance = 16; distance > 0; distance /= 2) {
        amax = fmaxf(amax, __shfl_xor_sync(0xffffffffu, amax, distance));
      }
      const uint8_t scale = mxfp8_scale_byte(amax);
      static_cast<uint8_t*>(params.output)[to] = byte_of_e4m3(value * inverse_scale_of_byte(scale));
      if (lane == 0) params.output_scales[to / kScaleBlock] = scale;
    } else {
      static_cast<__nv_bfloat16*>(params.output)[to] = __float2bfloat16_rn(value);
    }
  }
}

template <class K>
__device__ void gemm(const GemmParams& params, unsigned char* shared) {
  const int row_tiles = params.rows / kTileRows;
  const int token_tile = blockIdx.x / row_tiles;
  if (token_tile >= *params.tile_count) return;
  const int expert = params.tile_expert[token_tile];
  const int first_row = blockIdx.x % row_tiles * kTileRows;
  const int first_token = token_tile * K::kTileN;

  const int lane = threadIdx.x % 32;
  const int warp_row = threadIdx.x / 32 % kWarpsAlongRows * kWarpRows;
  const int warp_column = threadIdx.x / 32 / kWarpsAlongRows * K::kWarpColumns;
  __nv_bfloat16* weights = reinterpret_cast<__nv_bfloat16*>(shared);
  __nv_bfloat16* tokens = weights + kTileRows * K::kStride;

  Accumulators<K> products;
  for (int k = 0; k < params.depth; k += K::kTileK) {
    load_weights<K>(params, expert, first_row, k, weights);
    load_tokens<K>(params, first_token, k, tokens);
    __syncthreads();
    products.multiply(weights + warp_row * K::kStride, tokens + warp_column * K::kStride, lane);
    __syncthreads();
  }

  if constexpr (K::kGated) {
    float* staged = reinterpret_cast<float*>(shared);
    products.for_each(lane, [&](int row, int token, float up, float gate) {
      float* pair = staged + (warp_column + token) * K::kStagedStride + warp_row + row;
      pair[0] = up;
      pair[1] = gate;
    });
    __syncthreads();
    store_activated<K>(params, staged, expert, first_token, first_row / 2);
  } else {
    store_products<K>(params, products, first_token + warp_column, first_row + warp_row, lane);
  }
}

}  // namespace situ
