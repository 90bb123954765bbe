// The entry points, with the names and argument lists of FlashInfer's private fused-MoE runner.
//
// Supported are SiTU, MXFP4 weights, bfloat16 or MXFP8 activations, and routing given by the caller. What
// else the arguments can express is refused, never ignored; only what concerns routing from logits and
// programmatic dependent launch has no effect.

#include <cuda_runtime_api.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include "moe.h"
#include "tensors.h"

namespace situ {
namespace {

using tvm::ffi::Array;
using tvm::ffi::Optional;
using tvm::ffi::Tensor;
using tvm::ffi::TensorView;

constexpr int64_t kPackedRouting = 1;
constexpr int64_t kUnpackedRouting = 2;
constexpr int64_t kSitu = 9;
constexpr int64_t kMajorK = 0;
constexpr int64_t kBlock = 32;  // elements that share a scale

// Element types as the config query encodes them.
constexpr int64_t kBfloat16Code = 0x101000;
constexpr int64_t kMxE2m1Code = 0x110040c;
constexpr int64_t kMxE4m3Code = 0x110080d;

void refuse(bool given, const char* what) {
  if (given) TVM_FFI_THROW(ValueError) << "this runner does not support " << what;
}

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) {
    TVM_FFI_THROW(RuntimeError) << call << " failed with CUDA error " << static_cast<int>(error);
  }
}

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

int attribute_of(int device, cudaDeviceAttr attribute) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

int sm_of(int device) {
  return 10 * attribute_of(device, cudaDevAttrComputeCapabilityMajor) +
         attribute_of(device, cudaDevAttrComputeCapabilityMinor);
}

Array<Array<int64_t>> get_valid_moe_configs(
    int64_t dtype_act, int64_t dtype_weights, int64_t /*fp8_quantization_type*/, int64_t top_k,
    int64_t hidden_size, int64_t intermediate_size, int64_t /*num_local_experts*/,
    int64_t num_total_experts, int64_t act_type, bool use_shuffled_weight, int64_t weight_layout,
    bool use_per_token_scaling, int64_t num_tokens, bool has_gemm1_lora_delta) {
  refuse(num_tokens < 0 || top_k <= 0 || num_total_experts <= 0, "sizes that are not positive");
  const bool known = (dtype_act == kBfloat16Code || dtype_act == kMxE4m3Code) &&
                     dtype_weights == kMxE2m1Code && act_type == kSitu && use_shuffled_weight &&
                     weight_layout == kMajorK && !use_per_token_scaling && !has_gemm1_lora_delta;
  Array<Array<int64_t>> answer;
  if (!known) return answer;
  const Precision precision =
      dtype_act == kMxE4m3Code ? Precision::kW4a8 : Precision::kW4a16;
  const Problem problem{precision,         num_tokens,       top_k, hidden_size,
                        intermediate_size, num_total_experts};
  for (const Tactic& tactic : valid_tactics(problem, sm_of(current_device()))) {
    answer.push_back(Array<int64_t>{tactic.tile_n, tactic.config});
  }
  return answer;
}

// [None] with do_finalize, where the result is in `output`; else [FC2's output in the order of the
// experts, None, its row of each slot].
Array<Optional<Tensor>> fp4_block_scale_moe(
    int64_t routing_input_mode, Optional<TensorView> /*routing_logits*/, TensorView topk_ids,
    Optional<TensorView> topk_weights, Optional<TensorView> routing_bias, TensorView hidden_states,
    Optional<TensorView> hidden_states_scale, TensorView gemm1_weights,
    TensorView gemm1_weights_scale, Optional<TensorView> gemm1_bias,
    Optional<TensorView> gemm1_alpha, Optional<TensorView> gemm1_beta,
    Optional<TensorView> gemm1_clamp_limit, TensorView gemm2_weights,
    TensorView gemm2_weights_scale, Optional<TensorView> gemm2_bias,
    Optional<TensorView> output1_scale_scalar, Optional<TensorView> output1_scale_gate_scalar,
    Optional<TensorView> output2_scale_scalar, Optional<TensorView> per_token_scale,
    int64_t num_experts, int64_t top_k, Optional<int64_t> /*n_group*/,
    Optional<int64_t> /*topk_group*/, int64_t intermediate_size, int64_t local_expert_offset,
    int64_t local_num_experts, Optional<double> /*routed_scaling_factor*/,
    int64_t /*routing_method_type*/, bool do_finalize, bool /*enable_pdl*/, int64_t act_type,
    TensorView output, Array<int64_t> tactic, bool /*norm_topk_prob*/,
    Optional<TensorView> routing_replay_out) {
  const bool packed = routing_input_mode == kPackedRouting;
  refuse(!packed && routing_input_mode != kUnpackedRouting, "routing from logits");
  refuse(!packed && !topk_weights.has_value(), "unpacked routing without topk_weights");
  refuse(routing_bias.has_value(), "routing_bias");
  refuse(routing_replay_out.has_value(), "routing_replay_out");
  refuse(act_type != kSitu, "another activation than SiTU, 9");
  refuse(!gemm1_alpha.has_value() || !gemm1_beta.has_value(),
         "SiTU without gemm1_alpha and gemm1_beta");
  refuse(gemm1_clamp_limit.has_value(), "gemm1_clamp_limit");
  refuse(gemm1_bias.has_value() || gemm2_bias.has_value(), "a bias");
  refuse(output1_scale_scalar.has_value() || output1_scale_gate_scalar.has_value() ||
             output2_scale_scalar.has_value(),
         "scales of whole outputs");
  refuse(per_token_scale.has_value(), "per_token_scale");
  refuse(hidden_states.ndim() != 2, "hidden_states other than [tokens, hidden]");
  refuse(tactic.size() != 2, "a tactic other than [tile_n, config]");
  refuse(top_k <= 0 || num_experts <= 0 || local_num_experts <= 0 || intermediate_size <= 0,
         "sizes that are not positive");

  const bool mxfp8 = hidden_states_scale.has_value();
  const int64_t tokens = hidden_states.size(0);
  const int64_t hidden = hidden_states.size(1);
  const int64_t inner = intermediate_size;
  const int64_t experts = local_num_experts;

  MoeCall call{};
  call.device = hidden_states.device();
  const TensorReader read(call.device);
  refuse(call.device.device_id != current_device(), "tensors on another device than the current one");
  call.problem = {mxfp8 ? Precision::kW4a8 : Precision::kW4a16, tokens, top_k, hidden, inner,
                  num_experts};
  call.tactic = choose_tactic(call.problem, sm_of(call.device.device_id), tactic[0], tactic[1]);

  call.routing.topk_ids =
      read.elements<const int32_t>(topk_ids, "topk_ids", kInt32, {tokens, top_k});
  if (!packed) {
    call.routing.topk_weights = read.elements<const __nv_bfloat16>(*topk_weights, "topk_weights",
                                                                   kBf16, {tokens, top_k});
  }
  call.routing.top_k = static_cast<int32_t>(top_k);
  call.routing.local_offset = static_cast<int32_t>(local_expert_offset);
  call.routing.local_experts = static_cast<int32_t>(experts);

  call.fc1.rows = static_cast<int32_t>(2 * inner);
  call.fc1.depth = static_cast<int32_t>(hidden);
  call.fc1.weights = read.elements<const uint8_t>(gemm1_weights, "gemm1_weights", kByte,
                                                  {experts, 2 * inner, hidden / 2}, kMatrixAlignment);
  call.fc1.weight_scales = read.scales(gemm1_weights_scale, "gemm1_weights_scale",
                                       experts * 2 * inner * (hidden / kBlock));
  call.fc1.input = read.elements<const void>(hidden_states, "hidden_states",
                                             mxfp8 ? kE4m3 : kBf16, {tokens, hidden},
                                             kMatrixAlignment);
  if (mxfp8) {
    call.fc1.input_scales =
        read.scales(*hidden_states_scale, "hidden_states_scale", tokens * (hidden / kBlock));
  }
  call.fc1.beta = read.elements<const float>(*gemm1_alpha, "gemm1_alpha", kFloat32, {experts});
  call.fc1.linear_beta = read.elements<const float>(*gemm1_beta, "gemm1_beta", kFloat32, {experts});

  call.fc2.rows = static_cast<int32_t>(hidden);
  call.fc2.depth = static_cast<int32_t>(inner);
  call.fc2.weights = read.elements<const uint8_t>(gemm2_weights, "gemm2_weights", kByte,
                                                  {experts, hidden, inner / 2}, kMatrixAlignment);
  call.fc2.weight_scales =
      read.scales(gemm2_weights_scale, "gemm2_weights_scale", experts * hidden * (inner / kBlock));

  call.finalize.output =
      read.elements<__nv_bfloat16>(output, "output", kBf16, {tokens, hidden});
  call.finalize.top_k = static_cast<int32_t>(top_k);
  call.finalize.hidden = static_cast<int32_t>(hidden);

  const MoeResult result = run_moe(call, do_finalize);
  if (do_finalize) return {Optional<Tensor>()};
  return {result.expert_output, Optional<Tensor>(), result.slot_row};
}

}  // namespace
}  // namespace situ

TVM_FFI_DLL_EXPORT_TYPED_FUNC(trtllm_get_valid_moe_configs_private, situ::get_valid_moe_configs);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(trtllm_fp4_block_scale_moe_private, situ::fp4_block_scale_moe);
