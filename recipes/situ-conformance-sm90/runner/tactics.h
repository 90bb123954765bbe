// Which kernels fit a problem, and which of them a call uses.

#pragma once

#include <cstdint>
#include <vector>

#include "kernel_table.h"

namespace situ {

struct Problem {
  Precision precision;
  int64_t tokens;
  int64_t top_k;
  int64_t hidden;
  int64_t intermediate;
  int64_t total_experts;  // of the model, not of this rank: they decide the tiles
};

// A pair of kernels. `config` counts the pairs of a tile, see kernels_of_tile.
struct Tactic {
  int64_t tile_n;
  int64_t config;
  const Kernel* fc1;
  const Kernel* fc2;
};

// Every tactic that the device has for the tiles offered to the problem; tiles ascend, and so do the
// configs of a tile.
std::vector<Tactic> valid_tactics(const Problem& problem, int device_sm);

// The tactic that the caller names, or, for (-1, -1), the default: of the smallest offered tile the
// kernels with the largest K tile. Throws when there is none.
Tactic choose_tactic(const Problem& problem, int device_sm, int64_t tile_n, int64_t config);

}  // namespace situ
