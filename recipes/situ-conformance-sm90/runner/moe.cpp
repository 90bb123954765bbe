#include "moe.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>

#include "cubins.h"
#include "tensors.h"

namespace situ {
namespace {

constexpr int64_t kScaleBlock = 32;
constexpr int64_t kSmallestOutput = 128 * 1024;  // bytes

int64_t ceil_div(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

// Most tiles that the slots can fill: every expert that has a slot may leave one tile unfilled.
int64_t most_tiles(int64_t slots, int64_t experts, int64_t tile_n) {
  const int64_t used = std::min(slots, experts);
  return used + (slots - used) / tile_n;
}

// Launches kernels of one call.
class Launcher {
 public:
  explicit Launcher(DLDevice device)
      : device_(device.device_id),
        stream_(static_cast<CUstream>(TVMFFIEnvGetStream(device.device_type, device.device_id))) {
    bind_context(stream_);
  }

  template <class Params>
  void embedded(const char* name, int64_t grid_x, int64_t grid_y, unsigned shared_bytes,
                Params& params) const {
    launch(embedded_function(name, device_), static_cast<unsigned>(grid_x),
           static_cast<unsigned>(grid_y), kRoutingThreads, shared_bytes, stream_, &params);
  }

  void gemm(const Kernel& kernel, int64_t tiles, GemmParams& params) const {
    launch(function_of(kernel, device_),
           static_cast<unsigned>(tiles * (params.rows / kTileRows)), 1,
           static_cast<unsigned>(kernel.threads), static_cast<unsigned>(kernel.shared_bytes),
           stream_, &params);
  }

 private:
  int device_;
  CUstream stream_;
};

}  // namespace

MoeResult run_moe(MoeCall call, bool do_finalize) {
  const Problem& problem = call.problem;
  const int64_t slots = problem.tokens * problem.top_k;
  const int64_t experts = call.routing.local_experts;
  const int64_t tile_n = call.tactic.tile_n;
  const int64_t tiles = most_tiles(slots, problem.total_experts, tile_n);
  const int64_t rows = tiles * tile_n;
  const int64_t output_rows = std::max(rows, ceil_div(kSmallestOutput, 2 * problem.hidden));

  Scratch scratch(call.device);
  const MoeResult result{scratch.tensor({output_rows, problem.hidden}, kBf16),
                         scratch.tensor({slots}, kInt32)};
  if (slots == 0) return result;

  RoutingParams& routing = call.routing;
  routing.slot_row = static_cast<int32_t*>(result.slot_row.data_ptr());
  routing.slot_expert = scratch.array<int32_t>(slots, kInt32);
  routing.slot_weight = scratch.array<__nv_bfloat16>(slots, kBf16);
  routing.expert_slots = scratch.array<int32_t>(experts, kInt32);
  routing.tile_expert = scratch.array<int32_t>(tiles, kInt32);
  routing.tile_count = scratch.array<int32_t>(1, kInt32);
  routing.row_token = scratch.array<int32_t>(rows, kInt32);
  routing.slots = static_cast<int32_t>(slots);
  routing.tile_n = static_cast<int32_t>(tile_n);

  GemmParams& fc1 = call.fc1;
  fc1.input_rows = routing.row_token;
  if (problem.precision == Precision::kW4a8) {
    fc1.output = scratch.tensor({rows, problem.intermediate}, kE4m3).data_ptr();
    fc1.output_scales = scratch.array<uint8_t>(rows * (problem.intermediate / kScaleBlock), kByte);
  } else {
    fc1.output = scratch.tensor({rows, problem.intermediate}, kBf16).data_ptr();
  }
  GemmParams& fc2 = call.fc2;
  fc2.input = fc1.output;
  fc2.input_scales = fc1.output_scales;
  fc2.output = result.expert_output.data_ptr();
  fc1.tile_expert = fc2.tile_expert = routing.tile_expert;
  fc1.tile_count = fc2.tile_count = routing.tile_count;

  const Launcher launcher(call.device);
  launcher.embedded("situ_decode_slots", ceil_div(slots, kRoutingThreads), 1, 0, routing);
  launcher.embedded("situ_count_slots", experts, 1, 0, routing);
  launcher.embedded("situ_place_slots", experts, 1, kRoutingThreads / 32 * sizeof(int32_t), routing);
  launcher.gemm(*call.tactic.fc1, tiles, fc1);
  launcher.gemm(*call.tactic.fc2, tiles, fc2);
  if (do_finalize) {
    FinalizeParams& finalize = call.finalize;
    finalize.expert_output = static_cast<const __nv_bfloat16*>(fc2.output);
    finalize.slot_weight = routing.slot_weight;
    finalize.slot_row = routing.slot_row;
    launcher.embedded("situ_finalize", problem.tokens, ceil_div(problem.hidden, 2 * kRoutingThreads),
                      0, finalize);
  }
  return result;
}

}  // namespace situ
