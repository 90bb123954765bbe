#include "tensors.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <string>

namespace situ {
namespace {

Shape shape_of(const tvm::ffi::TensorView& tensor) {
  return {tensor.shape().begin(), tensor.shape().end()};
}

std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (const int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

std::string text_of(DLDataType dtype) {
  return "DLPack type " + std::to_string(dtype.code) + " of " + std::to_string(dtype.bits) + " bits";
}

bool same(DLDataType left, DLDataType right) {
  return left.code == right.code && left.bits == right.bits && left.lanes == right.lanes;
}

bool same(DLDevice left, DLDevice right) {
  return left.device_type == right.device_type && left.device_id == right.device_id;
}

}  // namespace

TensorReader::TensorReader(DLDevice device) : device_(device) {
  if (device.device_type != kDLCUDA) {
    TVM_FFI_THROW(ValueError) << "the tensors must be on a CUDA device";
  }
}

void* TensorReader::checked(const tvm::ffi::TensorView& tensor, const char* name, DLDataType dtype,
                            const Shape& shape, size_t alignment) const {
  if (!same(tensor.dtype(), dtype)) {
    TVM_FFI_THROW(TypeError) << name << " must be of " << text_of(dtype) << ", found "
                             << text_of(tensor.dtype());
  }
  if (shape_of(tensor) != shape) {
    TVM_FFI_THROW(ValueError) << name << " must have the shape " << text_of(shape) << ", found "
                              << text_of(shape_of(tensor));
  }
  if (!tensor.IsContiguous()) TVM_FFI_THROW(ValueError) << name << " must be contiguous";
  if (!same(tensor.device(), device_)) {
    TVM_FFI_THROW(ValueError) << name << " must be on the device of hidden_states";
  }
  char* data = static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset();
  if (reinterpret_cast<uintptr_t>(data) % alignment != 0) {
    TVM_FFI_THROW(ValueError) << name << " must begin at a multiple of " << alignment << " bytes";
  }
  return data;
}

const uint8_t* TensorReader::scales(const tvm::ffi::TensorView& tensor, const char* name,
                                    int64_t count) const {
  if (tensor.numel() != count) {
    TVM_FFI_THROW(ValueError) << name << " must have " << count << " scales, found "
                              << tensor.numel();
  }
  return elements<const uint8_t>(tensor, name, kE4m3, shape_of(tensor), 1);
}

tvm::ffi::Tensor Scratch::tensor(const Shape& shape, DLDataType dtype) {
  tensors_.push_back(tvm::ffi::Tensor::FromEnvAlloc(
      TVMFFIEnvTensorAlloc, tvm::ffi::ShapeView(shape.data(), shape.size()), dtype, device_));
  return tensors_.back();
}

}  // namespace situ
