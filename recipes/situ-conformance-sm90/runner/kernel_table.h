// The kernels that the runner knows: names, digests of their cubins, and how to launch them.

#pragma once

#include <cstdint>
#include <vector>

namespace situ {

enum class Role { kFc1, kFc2 };
enum class Precision { kW4a16, kW4a8 };

struct Kernel {
  const char* name;
  const char* sha256;  // of the cubin, 64 hexadecimal digits
  Role role;
  Precision precision;
  int tile_n;
  int tile_k;
  int sm;              // architecture of the cubin: SM number and suffix
  char suffix;
  int threads;
  int shared_bytes;

  // "a" code runs on exactly its SM, "f" code on later minors of its major as well.
  bool runs_on(int device_sm) const {
    if (suffix == 'a') return device_sm == sm;
    return device_sm / 10 == sm / 10 && device_sm >= sm;
  }
};

// All kernels, in table order.
const std::vector<Kernel>& kernel_table();

}  // namespace situ
