#include "tactics.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cmath>

#include "../kernels/gemm.h"

namespace situ {
namespace {

constexpr int64_t kScaleBlock = 32;
constexpr int64_t kDefault = -1;

struct TileKernels {
  std::vector<const Kernel*> fc1;
  std::vector<const Kernel*> fc2;
};

const std::vector<int64_t>& tile_ladder(Precision precision) {
  static const std::vector<int64_t> w4a16 = {8, 16, 32, 64};
  static const std::vector<int64_t> w4a8 = {8, 16, 32, 64, 128, 256};
  return precision == Precision::kW4a16 ? w4a16 : w4a8;
}

// Around the mean number of tokens of an expert: that tile, one below and two above it.
std::vector<int64_t> offered_tiles(const Problem& problem) {
  const std::vector<int64_t>& ladder = tile_ladder(problem.precision);
  const float mean = static_cast<float>(problem.tokens * problem.top_k) /
                     static_cast<float>(problem.total_experts);
  const auto centre = std::lower_bound(ladder.begin(), ladder.end() - 1,
                                       static_cast<int64_t>(std::ceil(mean)));
  const auto first = centre == ladder.begin() ? centre : centre - 1;
  const auto last = ladder.end() - centre > 3 ? centre + 3 : ladder.end();
  return {first, last};
}

// The device's kernels with this tile, in table order. Tactic `config` is FC1 kernel config / n and FC2
// kernel config % n, where n is the number of FC2 kernels, whether or not they fit the shape.
TileKernels kernels_of_tile(Precision precision, int64_t tile_n, int device_sm) {
  TileKernels kernels;
  for (const Kernel& kernel : kernel_table()) {
    if (kernel.precision != precision || kernel.tile_n != tile_n) continue;
    if (!kernel.runs_on(device_sm)) continue;
    (kernel.role == Role::kFc1 ? kernels.fc1 : kernels.fc2).push_back(&kernel);
  }
  return kernels;
}

bool fits(const Kernel& kernel, const Problem& problem) {
  const bool first = kernel.role == Role::kFc1;
  const int64_t rows = first ? 2 * problem.intermediate : problem.hidden;
  const int64_t depth = first ? problem.hidden : problem.intermediate;
  if (rows <= 0 || rows % kTileRows != 0) return false;
  if (depth <= 0 || depth % (4 * kScaleBlock) != 0) return false;  // scales lie in groups of 4
  return !first || depth % kernel.tile_k == 0;
}

std::vector<Tactic> tactics_of_tile(const Problem& problem, int device_sm, int64_t tile_n) {
  const TileKernels kernels = kernels_of_tile(problem.precision, tile_n, device_sm);
  std::vector<Tactic> tactics;
  for (size_t i = 0; i < kernels.fc1.size(); ++i) {
    for (size_t j = 0; j < kernels.fc2.size(); ++j) {
      if (!fits(*kernels.fc1[i], problem) || !fits(*kernels.fc2[j], problem)) continue;
      const int64_t config = static_cast<int64_t>(i * kernels.fc2.size() + j);
      tactics.push_back({tile_n, config, kernels.fc1[i], kernels.fc2[j]});
    }
  }
  return tactics;
}

// Larger is better: a large K tile, but not larger than K itself.
int64_t preference(const Kernel& kernel, int64_t depth) {
  return kernel.tile_k <= depth ? kernel.tile_k : -kernel.tile_k;
}

Tactic default_tactic(const Problem& problem, int device_sm) {
  const std::vector<Tactic> tactics =
      tactics_of_tile(problem, device_sm, offered_tiles(problem).front());
  if (tactics.empty()) {
    TVM_FFI_THROW(RuntimeError) << "no kernel for hidden size " << problem.hidden
                                << " and intermediate size " << problem.intermediate << " on sm_"
                                << device_sm;
  }
  // max_element keeps the first of equals, so ties go to the kernel that comes first in the table.
  return *std::max_element(
      tactics.begin(), tactics.end(), [&](const Tactic& left, const Tactic& right) {
        const int64_t fc1 = preference(*left.fc1, problem.hidden);
        const int64_t other_fc1 = preference(*right.fc1, problem.hidden);
        if (fc1 != other_fc1) return fc1 < other_fc1;
        return preference(*left.fc2, problem.intermediate) <
               preference(*right.fc2, problem.intermediate);
      });
}

}  // namespace

std::vector<Tactic> valid_tactics(const Problem& problem, int device_sm) {
  std::vector<Tactic> all;
  for (const int64_t tile_n : offered_tiles(problem)) {
    const std::vector<Tactic> tactics = tactics_of_tile(problem, device_sm, tile_n);
    all.insert(all.end(), tactics.begin(), tactics.end());
  }
  return all;
}

Tactic choose_tactic(const Problem& problem, int device_sm, int64_t tile_n, int64_t config) {
  if (tile_n == kDefault && config == kDefault) return default_tactic(problem, device_sm);
  for (const Tactic& tactic : tactics_of_tile(problem, device_sm, tile_n)) {
    if (tactic.config == config) return tactic;
  }
  TVM_FFI_THROW(ValueError) << "invalid MoE tactic " << config << " for tile_N=" << tile_n << " on sm_"
                            << device_sm;
}

}  // namespace situ
