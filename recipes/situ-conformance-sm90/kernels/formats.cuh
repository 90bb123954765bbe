// Number formats of the OCP microscaling specification, and the SiTU activation.
//
// A block is 32 consecutive elements of a row; its scale is one byte c that stands for 2^(c - 127).

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace situ {

constexpr int kScaleBlock = 32;

__host__ __device__ inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

__host__ __device__ inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Scale byte (E8M0): 0 is the subnormal 2^-127, 255 is NaN.
__host__ __device__ inline float scale_of_byte(uint8_t byte) {
  if (byte == 0) return 0x1p-127f;
  return float_of_bits(byte == 255 ? 0x7fc00000u : uint32_t{byte} << 23);
}

// MXFP4 element (E2M1): the low 3 bits are 0, 0.5, 1, 1.5, 2, 3, 4, 6 in this order, bit 3 the sign.
__host__ __device__ inline float e2m1_of_code(uint32_t code) {
  // Two exponent bits and one mantissa bit, where a float has the low end of its exponent and the top
  // of its mantissa: the value times 2^-126, for 0 and 0.5 (there a subnormal) as well.
  return float_of_bits((code & 8) << 28 | (code & 7) << 22) * 0x1p126f;
}

// MXFP8 element (E4M3, no infinities).
__host__ __device__ inline float e4m3_of_byte(uint8_t byte) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3)));
}

// Nearest E4M3 value, ties to even, saturating at 448.
__host__ __device__ inline uint8_t byte_of_e4m3(float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
}

// Scale byte of an MXFP8 block: the smallest power of two s with amax / s <= 448, clamped to bytes
// 0..254. 448 is 1.75 * 2^8, so that exponent and mantissa of amax decide, without rounding.
__host__ __device__ inline uint8_t mxfp8_scale_byte(float amax) {
  const uint32_t bits = bits_of_float(amax);
  const int byte = static_cast<int>(bits >> 23) - 8 + ((bits & 0x7fffffu) > 0x600000u ? 1 : 0);
  return static_cast<uint8_t>(byte < 0 ? 0 : byte > 254 ? 254 : byte);
}

// Reciprocal of a scale byte's value, for bytes 0..254.
__host__ __device__ inline float inverse_scale_of_byte(uint8_t byte) {
  return scale_of_byte(static_cast<uint8_t>(254 - byte));
}

// SiTU: beta * tanh(gate / beta) * sigmoid(gate), times linear_beta * tanh(up / linear_beta).
__host__ __device__ inline float situ(float gate, float up, float beta, float linear_beta) {
  const float bounded_gate = beta * tanhf(gate / beta) / (1.0f + expf(-gate));
  const float bounded_up = linear_beta * tanhf(up / linear_beta);
  return bounded_gate * bounded_up;
}

}  // namespace situ
