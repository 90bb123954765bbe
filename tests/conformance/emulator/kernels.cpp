// The bundle's kernels, compiled for the host, by name.

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>

#include "cuda_emulator.h"
#include "gemm.cuh"
#include "routing.cuh"

#include "kernels.h"

namespace {

template <class K>
void run_gemm(const void* params, unsigned char* shared) {
  situ::gemm<K>(*static_cast<const situ::GemmParams*>(params), shared);
}

template <void (*kFunction)(const situ::RoutingParams&)>
void run_routing(const void* params, unsigned char*) {
  kFunction(*static_cast<const situ::RoutingParams*>(params));
}

void run_place(const void* params, unsigned char* shared) {
  situ::place_slots(*static_cast<const situ::RoutingParams*>(params), reinterpret_cast<int*>(shared));
}

void run_finalize(const void* params, unsigned char*) {
  situ::finalize(*static_cast<const situ::FinalizeParams*>(params));
}

}  // namespace

const std::map<std::string, emulator::KernelFunction>& emulated_kernels() {
  static const std::map<std::string, emulator::KernelFunction> kernels = {
      {"situ_decode_slots", run_routing<situ::decode_slots>},
      {"situ_count_slots", run_routing<situ::count_slots>},
      {"situ_place_slots", run_place},
      {"situ_finalize", run_finalize},
#define GEMM(name, gated, mx, tile_n, tile_k) \
  {name, run_gemm<situ::Kernel<gated, mx, tile_n, tile_k>>},
#include "gemm_kernels.inc"
#undef GEMM
  };
  return kernels;
}
