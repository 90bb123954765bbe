#include "cubins.h"

#include <cuda_runtime_api.h>
#include <tvm/ffi/error.h>

#include <cctype>
#include <map>
#include <mutex>
#include <string>
#include <utility>

// See embedded.cpp.
extern "C" __attribute__((visibility("hidden"))) const unsigned char situ_embedded_fatbin[];

namespace situ {
namespace {

using Callback = void (*)(const char* path, const char* sha256);

Callback cubin_callback = nullptr;
thread_local std::string current_cubin;

constexpr unsigned kDefaultSharedLimit = 48 * 1024;

void check(CUresult result, const char* call, const std::string& what) {
  if (result != CUDA_SUCCESS) {
    TVM_FFI_THROW(RuntimeError) << call << " failed with CUDA error " << static_cast<int>(result)
                                << " for " << what;
  }
}

CUmodule load_module(const void* image, const std::string& what) {
  CUmodule module;
  check(cuModuleLoadData(&module, image), "cuModuleLoadData", what);
  return module;
}

CUfunction find_function(CUmodule module, const char* name) {
  CUfunction function;
  check(cuModuleGetFunction(&function, module, name), "cuModuleGetFunction", name);
  return function;
}

// The file is named like the kernel, with a capital first letter.
std::string cubin_path(const Kernel& kernel) {
  std::string path = kernel.name;
  path[0] = static_cast<char>(std::toupper(path[0]));
  return path + ".cubin";
}

std::string fetch_cubin(const Kernel& kernel) {
  if (cubin_callback == nullptr) {
    TVM_FFI_THROW(RuntimeError) << "FlashInferSetCubinCallback has not been called";
  }
  current_cubin.clear();
  cubin_callback(cubin_path(kernel).c_str(), kernel.sha256);
  if (current_cubin.empty()) {
    TVM_FFI_THROW(RuntimeError) << "the cubin callback gave no " << cubin_path(kernel);
  }
  return std::move(current_cubin);
}

// Functions by device and kernel name. The lock is never held while the callback runs: that may wait
// for an interpreter whose lock another caller of this library holds.
class FunctionCache {
 public:
  template <class Load>
  CUfunction get(int device, const char* name, Load load) {
    const std::pair<int, std::string> key{device, name};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = functions_.find(key);
      if (found != functions_.end()) return found->second;
    }
    const CUfunction function = load();
    const std::lock_guard<std::mutex> lock(mutex_);
    return functions_.emplace(key, function).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, std::string>, CUfunction> functions_;
};

FunctionCache& functions() {
  static FunctionCache cache;
  return cache;
}

}  // namespace

CUfunction function_of(const Kernel& kernel, int device) {
  return functions().get(device, kernel.name, [&] {
    const std::string cubin = fetch_cubin(kernel);
    const CUfunction function = find_function(load_module(cubin.data(), kernel.name), kernel.name);
    if (static_cast<unsigned>(kernel.shared_bytes) > kDefaultSharedLimit) {
      check(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               kernel.shared_bytes),
            "cuFuncSetAttribute", kernel.name);
    }
    return function;
  });
}

CUfunction embedded_function(const char* name, int device) {
  return functions().get(device, name, [&] {
    return find_function(load_module(situ_embedded_fatbin, "the embedded device code"), name);
  });
}

void bind_context(CUstream stream) {
  cudaStreamCaptureStatus status;
  const cudaError_t error = cudaStreamIsCapturing(stream, &status);
  if (error != cudaSuccess) {
    TVM_FFI_THROW(RuntimeError) << "cudaStreamIsCapturing failed with CUDA error "
                                << static_cast<int>(error);
  }
}

void launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned threads,
            unsigned shared_bytes, CUstream stream, void* params) {
  CUlaunchConfig config{};
  config.gridDimX = grid_x;
  config.gridDimY = grid_y;
  config.gridDimZ = 1;
  config.blockDimX = threads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = shared_bytes;
  config.hStream = stream;
  void* arguments[] = {params};
  check(cuLaunchKernelEx(&config, function, arguments, nullptr), "cuLaunchKernelEx", "a MoE kernel");
}

}  // namespace situ

extern "C" {

__attribute__((visibility("default"))) void FlashInferSetCubinCallback(situ::Callback callback) {
  situ::cubin_callback = callback;
}

// Answers the callback: copies the cubin for the calling thread.
__attribute__((visibility("default"))) void FlashInferSetCurrentCubin(const char* data, int size) {
  situ::current_cubin.assign(data, static_cast<size_t>(size));
}

}
