// What the routing kernels and the finalize kernel are launched with. Host and device code.

#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace situ {

constexpr int kRoutingThreads = 256;

// A slot is one of a token's `top_k` experts: slot s belongs to token s / top_k.
// Experts outside [local_offset, local_offset + local_experts) belong to other ranks.
struct RoutingParams {
  const int32_t* topk_ids;             // [slots]; packed: id << 16 | bits of the bf16 weight
  const __nv_bfloat16* topk_weights;   // [slots]; null when the ids are packed
  int32_t* slot_expert;                // [slots], local expert or -1
  __nv_bfloat16* slot_weight;          // [slots]
  int32_t* slot_row;                   // [slots], padded row or -1
  int32_t* expert_slots;               // [local_experts], number of slots
  int32_t* tile_expert;                // [at most one for each tile]
  int32_t* tile_count;                 // [1]
  int32_t* row_token;                  // [padded rows], token or -1 for padding
  int32_t slots;
  int32_t top_k;
  int32_t local_offset;
  int32_t local_experts;
  int32_t tile_n;
};

struct FinalizeParams {
  const __nv_bfloat16* expert_output;  // [padded rows, hidden]
  const __nv_bfloat16* slot_weight;    // [slots]
  const int32_t* slot_row;             // [slots]
  __nv_bfloat16* output;               // [tokens, hidden]
  int32_t top_k;
  int32_t hidden;                      // even
};

}  // namespace situ
