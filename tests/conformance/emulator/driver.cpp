// libcuda.so.1 for the emulator: kernels are found by name and run at launch, device memory is host
// memory. Every launch is noted, and an allocator for the TVM-FFI environment puts guards around what
// the runner asks for.

#include <cuda.h>
#include <dlpack/dlpack.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels.h"

namespace {

constexpr size_t kGuard = 4096;
constexpr unsigned char kGuardFill = 0xab;
constexpr unsigned char kFill = 0xff;

struct Function {
  std::string name;
  emulator::KernelFunction run;
  int shared_limit = 48 * 1024;
};

struct Block {
  std::vector<unsigned char> memory;
  size_t bytes;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
};

std::string log_text;
int damaged_guards = 0;
int live_blocks = 0;

bool intact(const unsigned char* guard) {
  for (size_t i = 0; i < kGuard; ++i) {
    if (guard[i] != kGuardFill) return false;
  }
  return true;
}

unsigned char* begin_of(Block& block) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(block.memory.data()) + kGuard;
  return reinterpret_cast<unsigned char*>((start + 255) / 256 * 256);
}

void free_tensor(DLManagedTensorVersioned* tensor) {
  Block* block = static_cast<Block*>(tensor->manager_ctx);
  const unsigned char* begin = begin_of(*block);
  if (!intact(begin - kGuard) || !intact(begin + block->bytes)) ++damaged_guards;
  --live_blocks;
  delete block;
  delete tensor;
}

}  // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  static const unsigned char elf[4] = {0x7f, 'E', 'L', 'F'};
  static const unsigned char fatbin[4] = {0x50, 0xed, 0x55, 0xba};
  if (std::memcmp(image, elf, 4) != 0 && std::memcmp(image, fatbin, 4) != 0) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *module = reinterpret_cast<CUmodule>(1);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  const auto found = emulated_kernels().find(name);
  if (found == emulated_kernels().end()) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(new Function{name, found->second});
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > 227 * 1024) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  reinterpret_cast<Function*>(function)->shared_limit = value;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** params, void**) {
  const Function& function = *reinterpret_cast<Function*>(handle);
  if (static_cast<int>(config->sharedMemBytes) > function.shared_limit || config->gridDimX == 0 ||
      config->gridDimY == 0 || config->gridDimY > 65535) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  log_text += function.name + "\n";
  emulator::run(function.run, config->gridDimX, config->gridDimY, config->blockDimX,
                config->sharedMemBytes, params[0]);
  return CUDA_SUCCESS;
}

// The kernels launched since the last call, one a line.
const char* emulator_take_log() {
  static std::string taken;
  taken = log_text;
  log_text.clear();
  return taken.c_str();
}

int emulator_damaged_guards() { return damaged_guards; }
int emulator_live_blocks() { return live_blocks; }

int emulator_allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void*,
                      void (*)(void*, const char*, const char*)) {
  auto* block = new Block;
  block->bytes = prototype->dtype.bits / 8;
  for (int i = 0; i < prototype->ndim; ++i) {
    block->shape.push_back(prototype->shape[i]);
    block->bytes *= static_cast<size_t>(prototype->shape[i]);
  }
  block->strides.assign(block->shape.size(), 1);
  for (size_t i = block->shape.size(); i-- > 1;) {
    block->strides[i - 1] = block->strides[i] * block->shape[i];
  }
  block->memory.resize(block->bytes + 2 * kGuard + 256);
  unsigned char* begin = begin_of(*block);
  std::memset(begin - kGuard, kGuardFill, kGuard);
  std::memset(begin, kFill, block->bytes);
  std::memset(begin + block->bytes, kGuardFill, kGuard);
  auto* tensor = new DLManagedTensorVersioned{};
  tensor->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  tensor->manager_ctx = block;
  tensor->deleter = free_tensor;
  tensor->dl_tensor = *prototype;
  tensor->dl_tensor.data = begin;
  tensor->dl_tensor.shape = block->shape.data();
  tensor->dl_tensor.strides = block->strides.data();
  tensor->dl_tensor.byte_offset = 0;
  ++live_blocks;
  *out = tensor;
  return 0;
}

}
