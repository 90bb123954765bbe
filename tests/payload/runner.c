/* A runner as the loader sees one: it asks for cubins by a compiled-in path and SHA-256. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

static const struct {
  const char *path, *sha256;
} kernels[] = {KERNELS};

static void (*get_cubin)(const char *path, const char *sha256);
static _Thread_local char *current;
static _Thread_local int current_size;

void FlashInferSetCubinCallback(void (*callback)(const char *path, const char *sha256)) {
  get_cubin = callback;
}

void FlashInferSetCurrentCubin(const char *data, int size) {
  free(current);
  current = malloc(size + 1);
  memcpy(current, data, size);
  current_size = size;
}

static long checksum(long kernel) {
  current_size = -1;
  get_cubin(kernels[kernel].path, kernels[kernel].sha256);
  long sum = 0;
  for (int i = 0; i < current_size; ++i) sum += (unsigned char)current[i];
  return sum;
}

static int answer(TVMFFIAny *result, long value) {
  memset(result, 0, sizeof *result);
  result->type_index = kTVMFFIInt;
  result->v_int64 = value;
  return 0;
}

/* The sum of the cubin's bytes. */
int __tvm_ffi_fetch(void *self, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
  return answer(result, checksum(args[0].v_int64));
}

/* The same, but an empty cubin is an error, as the CUDA driver makes it one. */
int __tvm_ffi_launch(void *self, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
  long sum = checksum(args[0].v_int64);
  if (current_size == 0) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", "invalid device image");
    return -1;
  }
  return answer(result, sum);
}

static void *work(void *kernel) { return (void *)checksum((long)kernel); }

/* The same on a thread that Python knows nothing of. */
int __tvm_ffi_fetch_on_worker(void *self, const TVMFFIAny *args, int32_t count,
                              TVMFFIAny *result) {
  pthread_t thread;
  void *sum;
  pthread_create(&thread, NULL, work, (void *)(long)args[0].v_int64);
  pthread_join(thread, &sum);
  return answer(result, (long)sum);
}

#ifdef UNDEFINED_FUNCTION
extern int TVMFFINoSuchSymbol(void);
int __tvm_ffi_unresolved(void *self, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
  return TVMFFINoSuchSymbol();
}
#endif
