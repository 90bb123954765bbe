// One call of the fused MoE, its arguments checked.

#pragma once

#include <tvm/ffi/container/tensor.h>

#include "../kernels/gemm.h"
#include "../kernels/routing.h"
#include "tactics.h"

namespace situ {

// Kernel parameters hold what the caller gave: inputs, weights, sizes. run_moe fills in the rest.
struct MoeCall {
  DLDevice device;
  Problem problem;
  Tactic tactic;
  RoutingParams routing;
  GemmParams fc1;
  GemmParams fc2;
  FinalizeParams finalize;
};

struct MoeResult {
  tvm::ffi::Tensor expert_output;  // bf16 [padded rows, hidden]: FC2's output
  tvm::ffi::Tensor slot_row;       // int32 [tokens * top_k]: its row of each slot, -1 for other ranks'
};

// Launches the call on the environment's current stream. Without `do_finalize` the caller's output is
// not written.
MoeResult run_moe(MoeCall call, bool do_finalize);

}  // namespace situ
