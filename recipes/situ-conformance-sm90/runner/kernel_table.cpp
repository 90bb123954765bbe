#include "kernel_table.h"

// Written by the build: SITU_TABLE_TEXT and one SITU_KERNEL(...) for each kernel.
#include "kernel_table.inc"

namespace situ {
namespace {

// Names and digests as they lie in the library's read-only data: eight NULs; then a name and its NUL,
// NULs up to a multiple of 8, the digest and its NUL, again NULs; and so on. What the runner will ask
// for can be read there.
alignas(8) constexpr char kText[] = SITU_TABLE_TEXT;

}  // namespace

const std::vector<Kernel>& kernel_table() {
#define SITU_KERNEL(name, sha256, ...) Kernel{kText + name, kText + sha256, __VA_ARGS__},
  static const std::vector<Kernel> table = {SITU_TABLE_KERNELS};
#undef SITU_KERNEL
  return table;
}

}  // namespace situ
