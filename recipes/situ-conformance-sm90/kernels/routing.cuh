// From each token's experts to each expert's tokens, and back.
//
// Three kernels, so that rows are assigned in the order of the slots, without atomics: the layout of
// the padded rows is the same at every launch.

#pragma once

#include "routing.h"

namespace situ {

constexpr int kRoutingWarps = kRoutingThreads / 32;

// One thread for each slot.
__device__ inline void decode_slots(const RoutingParams& params) {
  const int slot = blockIdx.x * kRoutingThreads + threadIdx.x;
  if (slot >= params.slots) return;
  int id = params.topk_ids[slot];
  if (params.topk_weights != nullptr) {
    params.slot_weight[slot] = params.topk_weights[slot];
  } else {
    params.slot_weight[slot] = __ushort_as_bfloat16(static_cast<uint16_t>(id));
    id >>= 16;
  }
  const int expert = id - params.local_offset;
  params.slot_expert[slot] = expert >= 0 && expert < params.local_experts ? expert : -1;
  params.slot_row[slot] = -1;
}

// One CTA for each local expert.
__device__ inline void count_slots(const RoutingParams& params) {
  const int expert = blockIdx.x;
  int total = 0;
  for (int start = 0; start < params.slots; start += kRoutingThreads) {
    const int slot = start + threadIdx.x;
    total += __syncthreads_count(slot < params.slots && params.slot_expert[slot] == expert);
  }
  if (threadIdx.x == 0) params.expert_slots[expert] = total;
}

__device__ inline int tiles_of(const RoutingParams& params, int expert) {
  return (params.expert_slots[expert] + params.tile_n - 1) / params.tile_n;
}

// Sum over the CTA, in every thread.
__device__ inline int sum_of_threads(int value, int* warp_sums) {
  const int of_warp = __reduce_add_sync(0xffffffffu, value);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = of_warp;
  __syncthreads();
  int sum = 0;
  for (int warp = 0; warp < kRoutingWarps; ++warp) sum += warp_sums[warp];
  __syncthreads();
  return sum;
}

// One CTA for each local expert: its tiles begin where those of the experts before it end.
// `warp_sums` is shared memory, kRoutingWarps numbers.
__device__ inline void place_slots(const RoutingParams& params, int* warp_sums) {
  const int expert = blockIdx.x;
  int before = 0;
  for (int other = threadIdx.x; other < expert; other += kRoutingThreads) {
    before += tiles_of(params, other);
  }
  const int first_tile = sum_of_threads(before, warp_sums);
  const int tiles = tiles_of(params, expert);
  for (int tile = threadIdx.x; tile < tiles; tile += kRoutingThreads) {
    params.tile_expert[first_tile + tile] = expert;
  }
  if (expert == params.local_experts - 1 && threadIdx.x == 0) {
    *params.tile_count = first_tile + tiles;
  }

  const int first_row = first_tile * params.tile_n;
  const int warp = threadIdx.x / 32;
  const unsigned lanes_below = (1u << threadIdx.x % 32) - 1;
  int placed = 0;
  for (int start = 0; start < params.slots; start += kRoutingThreads) {
    const int slot = start + threadIdx.x;
    const bool mine = slot < params.slots && params.slot_expert[slot] == expert;
    const unsigned in_warp = __ballot_sync(0xffffffffu, mine);
    if (threadIdx.x % 32 == 0) warp_sums[warp] = __popc(in_warp);
    __syncthreads();
    int row = first_row + placed + __popc(in_warp & lanes_below);
    for (int other = 0; other < kRoutingWarps; ++other) {
      if (other < warp) row += warp_sums[other];
      placed += warp_sums[other];
    }
    if (mine) {
      params.slot_row[slot] = row;
      params.row_token[row] = slot / params.top_k;
    }
    __syncthreads();
  }
  for (int row = placed + threadIdx.x; row < tiles * params.tile_n; row += kRoutingThreads) {
    params.row_token[first_row + row] = -1;
  }
}

// Grid: tokens, then pairs of hidden elements. Sums in float32 in the order of the slots.
__device__ inline void finalize(const FinalizeParams& params) {
  const int token = blockIdx.x;
  const int column = 2 * (blockIdx.y * kRoutingThreads + threadIdx.x);
  if (column >= params.hidden) return;
  float low = 0.0f;
  float high = 0.0f;
  for (int k = 0; k < params.top_k; ++k) {
    const int slot = token * params.top_k + k;
    const int row = params.slot_row[slot];
    if (row < 0) continue;
    const float weight = __bfloat162float(params.slot_weight[slot]);
    const size_t from = static_cast<size_t>(row) * params.hidden + column;
    const float2 pair = __bfloat1622float2(
        *reinterpret_cast<const __nv_bfloat162*>(params.expert_output + from));
    low += weight * pair.x;
    high += weight * pair.y;
  }
  const size_t to = static_cast<size_t>(token) * params.hidden + column;
  *reinterpret_cast<__nv_bfloat162*>(params.output + to) = __floats2bfloat162_rn(low, high);
}

}  // namespace situ
