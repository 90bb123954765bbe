// The kernels that are embedded in the runner.

#include "routing.cuh"

extern "C" {

__global__ void __launch_bounds__(situ::kRoutingThreads)
    situ_decode_slots(const __grid_constant__ situ::RoutingParams params) {
  situ::decode_slots(params);
}

__global__ void __launch_bounds__(situ::kRoutingThreads)
    situ_count_slots(const __grid_constant__ situ::RoutingParams params) {
  situ::count_slots(params);
}

__global__ void __launch_bounds__(situ::kRoutingThreads)
    situ_place_slots(const __grid_constant__ situ::RoutingParams params) {
  extern __shared__ int warp_sums[];
  situ::place_slots(params, warp_sums);
}

__global__ void __launch_bounds__(situ::kRoutingThreads)
    situ_finalize(const __grid_constant__ situ::FinalizeParams params) {
  situ::finalize(params);
}

}
