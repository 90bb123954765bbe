// libcudart.so.13 for the emulator: one device, whose SM number the environment gives.

#include <driver_types.h>

#include <cstdlib>

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const char* text = std::getenv("EMULATED_SM");
  const int sm = text ? std::atoi(text) : 90;
  if (attribute == cudaDevAttrComputeCapabilityMajor) *value = sm / 10;
  else if (attribute == cudaDevAttrComputeCapabilityMinor) *value = sm % 10;
  else return cudaErrorInvalidValue;
  return cudaSuccess;
}

}
