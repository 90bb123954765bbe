// Checking the caller's tensors, and allocating for one call.

#pragma once

#include <tvm/ffi/container/tensor.h>

#include <cstdint>
#include <vector>

namespace situ {

using Shape = std::vector<int64_t>;

constexpr size_t kMatrixAlignment = 16;  // bytes

constexpr DLDataType kBf16{kDLBfloat, 16, 1};
constexpr DLDataType kE4m3{kDLFloat8_e4m3fn, 8, 1};
constexpr DLDataType kByte{kDLUInt, 8, 1};
constexpr DLDataType kInt32{kDLInt, 32, 1};
constexpr DLDataType kFloat32{kDLFloat, 32, 1};

// Takes elements out of the tensors of one call; throws where one is not what it should be.
class TensorReader {
 public:
  // Tensors must be on this CUDA device.
  explicit TensorReader(DLDevice device);

  // The elements of a contiguous tensor of exactly this dtype and shape. Those of matrices are read 16
  // bytes at a time.
  template <class T>
  T* elements(const tvm::ffi::TensorView& tensor, const char* name, DLDataType dtype,
              const Shape& shape, size_t alignment = 4) const {
    return static_cast<T*>(checked(tensor, name, dtype, shape, alignment));
  }

  // Block scales, in any shape: callers give them in several.
  const uint8_t* scales(const tvm::ffi::TensorView& tensor, const char* name, int64_t count) const;

 private:
  void* checked(const tvm::ffi::TensorView& tensor, const char* name, DLDataType dtype,
                const Shape& shape, size_t alignment) const;

  DLDevice device_;
};

// Temporaries of one call, from the environment's allocator. They are given back when the call returns,
// while its kernels may still run: that allocator keeps memory in the order of the stream.
class Scratch {
 public:
  explicit Scratch(DLDevice device) : device_(device) {}

  tvm::ffi::Tensor tensor(const Shape& shape, DLDataType dtype);

  template <class T>
  T* array(int64_t count, DLDataType dtype) {
    return static_cast<T*>(tensor({count}, dtype).data_ptr());
  }

 private:
  DLDevice device_;
  std::vector<tvm::ffi::Tensor> tensors_;
};

}  // namespace situ
