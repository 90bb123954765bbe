/* Stub of the CUDA driver: the functions that runners call, told to the listener. */
#include <string.h>

#include "stub.h"

enum { NOT_INITIALIZED = 3, CLEANED_BYTES = 128 * 1024 };

static situ_listener current_listener;

void situ_rehearsal_listen(situ_listener listener) { current_listener = listener; }

/* Zeros the stack below the caller. Runners build kernel parameters on the stack and leave fields
   that a kernel does not read unwritten: without this they would hold addresses of earlier calls. */
static __attribute__((noinline)) void clean_stack(void) {
  char block[CLEANED_BYTES];
  memset(block, 0, sizeof block);
  __asm__ volatile("" : : "r"(block) : "memory");
}

int situ_rehearsal_tell(const char *call, const uint64_t *words) {
  const int code = current_listener ? current_listener(call, words) : NOT_INITIALIZED;
  clean_stack();
  return code;
}

int cuCtxGetCurrent(void **context) {
  static int the_context;
  *context = &the_context;
  return 0;
}

int cuCtxGetId(void *context, unsigned long long *id) {
  *id = 1;
  return 0;
}

int cuGetErrorString(int code, const char **text) {
  *text = "refused by the stub CUDA driver";
  return 0;
}

int cuModuleLoadData(void **module, const void *image) { return TELL(WORD(module), WORD(image)); }

int cuModuleUnload(void *module) { return 0; }

int cuModuleGetFunction(void **function, void *module, const char *name) {
  return TELL(WORD(function), WORD(module), WORD(name));
}

int cuFuncSetAttribute(void *function, int attribute, int value) { return 0; }

int cuLaunchKernelEx(const void *config, void *function, void **parameters, void **extra) {
  return TELL(WORD(function), WORD(parameters));
}

int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *sizes,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                           int interleave, int swizzle, int promotion, int fill) {
  return TELL(WORD(map), WORD(type), WORD(rank), WORD(address), WORD(sizes), WORD(strides));
}
