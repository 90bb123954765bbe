/* Stub of the CUDA runtime: the functions that runners call, told to the listener. */
#include <stddef.h>

#include "stub.h"

typedef struct {
  unsigned x, y, z;
} Dim3;

int cudaGetDevice(int *device) {
  *device = 0;
  return 0;
}

int cudaGetLastError(void) { return 0; }

int cudaDeviceSynchronize(void) { return 0; }

/* Libraries free when the process ends, and then nobody listens any more. */
int cudaFree(void *address) { return 0; }

int cudaStreamIsCapturing(void *stream, int *status) {
  *status = 0;
  return 0;
}

const char *cudaGetErrorString(int code) { return "refused by the stub CUDA runtime"; }

int cudaDeviceGetAttribute(int *value, int attribute, int device) {
  return TELL(WORD(value), WORD(attribute), WORD(device));
}

/* What runners refer to and a rehearsal does not come by; the listener says so if it does. */

int cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                     unsigned long long flags, int *status) {
  return TELL(WORD(symbol));
}

int cudaPointerGetAttributes(void *attributes, const void *address) { return TELL(WORD(address)); }

int cudaMalloc(void **address, size_t size) { return TELL(size); }

int cudaMallocHost(void **address, size_t size) { return TELL(size); }

int cudaMemset(void *address, int value, size_t size) { return TELL(WORD(address)); }

int cudaMemsetAsync(void *address, int value, size_t size, void *stream) {
  return TELL(WORD(address));
}

int cudaMemcpy(void *to, const void *from, size_t size, int kind) { return TELL(WORD(to)); }

int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
  return TELL(WORD(to));
}

/* Kernels of the runner itself. The compiler registers them when the library is opened; a kernel's
   handle is the address of its host function. */

void **__cudaRegisterFatBinary(void *code) {
  static void *handle;
  return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle) {}

void __cudaUnregisterFatBinary(void **handle) {}

void __cudaRegisterVar(void **handle, char *host, char *address, const char *name, int external,
                       size_t size, int constant, int global) {}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int thread_limit, void *thread, void *block, void *block_size,
                            void *grid_size, int *warp_size) {
  TELL(WORD(host), WORD(name));
}

int __cudaGetKernel(void **kernel, const void *host) {
  *kernel = (void *)host;
  return 0;
}

int cudaFuncSetAttribute(const void *kernel, int attribute, int value) { return 0; }

/* A launch in triple angle brackets: pushed, popped and launched by one thread. */

static __thread struct {
  Dim3 grid, block;
  size_t shared;
  void *stream;
} pushed;

unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared, void *stream) {
  pushed.grid = grid;
  pushed.block = block;
  pushed.shared = shared;
  pushed.stream = stream;
  return 0;
}

int __cudaPopCallConfiguration(Dim3 *grid, Dim3 *block, size_t *shared, void **stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared = pushed.shared;
  *stream = pushed.stream;
  return 0;
}

int __cudaLaunchKernel(const void *kernel, Dim3 grid, Dim3 block, void **parameters, size_t shared,
                       void *stream) {
  return TELL(WORD(kernel), WORD(parameters));
}

int cudaLaunchKernelExC(const void *config, const void *kernel, void **parameters) {
  return TELL(WORD(kernel), WORD(parameters));
}
