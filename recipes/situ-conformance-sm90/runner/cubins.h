// Kernels that come from outside the library, and launching kernels.

#pragma once

#include <cuda.h>

#include "kernel_table.h"

namespace situ {

// The kernel's function on the current device; its cubin is asked of the caller's callback when the
// device needs it for the first time.
CUfunction function_of(const Kernel& kernel, int device);

// A kernel of the embedded device code on the current device.
CUfunction embedded_function(const char* name, int device);

// Gives the calling thread the device's context, which only calls of the CUDA runtime do by themselves.
// Allowed while the stream is captured.
void bind_context(CUstream stream);

// The kernel takes one parameter by value, `params`.
void launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned threads,
            unsigned shared_bytes, CUstream stream, void* params);

}  // namespace situ
