/* A runner as a rehearsal sees one: two entry points, a kernel table, cubins through the callback.

   The environment variable MISBEHAVE says what it does wrong. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <unistd.h>

/* Of CUDA. */
int cuModuleLoadData(void **module, const void *image);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuLaunchKernelEx(const void *config, void *function, void **parameters, void **extra);
int cudaDeviceGetAttribute(int *value, int attribute, int device);
int cudaMalloc(void **address, size_t size);

/* The kernel table as a real runner carries it: names and digests in read-only data, in the order of
   families (w4a16 FC1, FC2, w4a8 FC1, FC2) and of tiles (8, 16, ... tokens) within. */
const char kernel_table[] = KERNEL_TABLE;

/* A fatbin with the finalize kernel, as the tests put it there. */
asm(".pushsection .nv_fatbin, \"a\"\n embedded: .incbin \"" FATBIN "\"\n .popsection");
extern const char embedded[] __attribute__((visibility("hidden")));

static void (*get_cubin)(const char *path, const char *sha256);
static char *current;

void FlashInferSetCubinCallback(void (*callback)(const char *, const char *)) {
  get_cubin = callback;
}

void FlashInferSetCurrentCubin(const char *data, int size) {
  free(current);
  current = malloc(size + 1);
  memcpy(current, data, size);
  current[size] = 0;
}

static int misbehaves(const char *how) {
  const char *mode = getenv("MISBEHAVE");
  return mode && !strcmp(mode, how);
}

static int fail(const char *message) {
  TVMFFIErrorSetRaisedFromCStr("RuntimeError", message);
  return -1;
}

static TVMFFIAny integer(int64_t value) {
  TVMFFIAny any;
  memset(&any, 0, sizeof any);
  any.type_index = kTVMFFIInt;
  any.v_int64 = value;
  return any;
}

static int call_global(const char *name, TVMFFIAny *arguments, int count, TVMFFIAny *result) {
  TVMFFIByteArray text = {name, strlen(name)};
  TVMFFIObjectHandle function = NULL;
  if (TVMFFIFunctionGetGlobal(&text, &function)) return -1;
  memset(result, 0, sizeof *result);
  return TVMFFIFunctionCall(function, arguments, count, result);
}

static void offered(int w4a8, int64_t tokens, int *first, int *last) {
  static const int experts = 896, top_k = 16;
  int most = w4a8 ? TILES - 1 : 3, centre = 0;
  while (centre < most && tokens * top_k > (int64_t)experts * (8 << centre)) ++centre;
  *first = centre ? centre - 1 : 0;
  *last = centre + 2 < most ? centre + 2 : most;
}

int __tvm_ffi_trtllm_get_valid_moe_configs_private(void *self, const TVMFFIAny *args, int32_t count,
                                                   TVMFFIAny *result) {
  TVMFFIAny rows[TILES];
  int first, last, row = 0, sm = 0;
  if (cudaDeviceGetAttribute(&sm, 75, 0)) return fail("no compute capability");
  if (misbehaves("attribute") && cudaDeviceGetAttribute(&sm, 97, 0)) return fail("no attribute 97");
  offered(args[0].v_int64 != 0x101000, args[12].v_int64, &first, &last);
  for (int tile = first; tile <= last; ++tile, ++row) {
    int shown = misbehaves("tactics") ? first + last - tile : tile;
    TVMFFIAny pair[2] = {integer(8 << shown), integer(0)};
    if (call_global("ffi.Array", pair, 2, &rows[row])) return -1;
  }
  return call_global("ffi.Array", rows, row, result);
}

/* A tensor object is its header and then a DLTensor. */
static const DLTensor *tensor_of(TVMFFIObjectHandle object) {
  return (const DLTensor *)((char *)object + sizeof(TVMFFIObject));
}

static const DLTensor *tensor(const TVMFFIAny *any) {
  if (any->type_index == kTVMFFINone) return NULL;
  if (any->type_index == kTVMFFIDLTensorPtr) return any->v_ptr;
  return tensor_of(any->v_ptr);
}

static char *address(const DLTensor *value) { return value ? value->data : NULL; }

static size_t size_of(const DLTensor *value) {
  size_t size = value->dtype.bits / 8;
  for (int axis = 0; axis < value->ndim; ++axis) size *= value->shape[axis];
  return size;
}

/* Entry `index` of the table: family * TILES + tile. */
static const char *table_entry(int index, const char **sha256) {
  const char *at = kernel_table + 1;
  for (; index; --index) {
    at += strlen(at) + 1;
    at += strlen(at) + 1;
  }
  *sha256 = at + strlen(at) + 1;
  return at;
}

static int launch(void *function, void **parameters, int count) {
  /* Two parameters: a structure, and one pointer by itself. */
  char structure[256] = {0};
  memcpy(structure, parameters, (count - 1) * sizeof(void *));
  void *addresses[2] = {structure, &parameters[count - 1]};
  return cuLaunchKernelEx(NULL, function, addresses, NULL) ? fail("not launched") : 0;
}

static int launch_cubin(int index, void **parameters, int count) {
  const char *sha256, *kernel = table_entry(index, &sha256);
  char path[512];
  void *module, *function;
  snprintf(path, sizeof path, "somewhere/B%s.cubin", kernel + 1);
  if (misbehaves("unknown")) strcpy(path, "somewhere/Bmm_unknown_sm103a.cubin");
  get_cubin(path, sha256);
  if (cuModuleLoadData(&module, current)) return fail("invalid device image");
  if (cuModuleGetFunction(&function, module, kernel)) return fail("no such kernel");
  return launch(function, parameters, count);
}

static int launch_finalize(void **parameters, int count) {
  void *module, *function;
  if (cuModuleLoadData(&module, embedded)) return fail("invalid embedded image");
  if (cuModuleGetFunction(&function, module, "finalize")) return fail("no finalize kernel");
  return launch(function, parameters, count);
}

int __tvm_ffi_trtllm_fp4_block_scale_moe_private(void *self, const TVMFFIAny *args, int32_t count,
                                                 TVMFFIAny *result) {
  const DLTensor *hidden = tensor(&args[5]), *scales = tensor(&args[6]);
  char *w13 = address(tensor(&args[7])), *w2 = address(tensor(&args[13]));
  const int w4a8 = scales != NULL, finalize = args[29].v_int64;
  int first, last;
  TVMFFIAny tactic[2] = {args[33], integer(0)}, tile_n;
  offered(w4a8, hidden->shape[0], &first, &last);
  if (call_global("ffi.ArrayGetItem", tactic, 2, &tile_n)) return -1;
  int tile = first;
  for (int step = 0; tile_n.v_int64 > 0 && 8 << step <= tile_n.v_int64; ++step) tile = step;
  if (misbehaves("kernel")) tile = tile ? tile - 1 : 1;

  if (misbehaves("crash")) raise(SIGSEGV);
  if (misbehaves("hang"))
    for (;;) pause();
  if (misbehaves("raise")) return fail("no such thing");
  if (misbehaves("malloc")) {
    void *block;
    if (cudaMalloc(&block, 16)) return fail("no memory");
  }

  int64_t shape[2] = {hidden->shape[0] * 16, 512};
  DLTensor wanted = {NULL, hidden->device, 2, {kDLBfloat, 16, 1}, shape, NULL, 0};
  TVMFFIObjectHandle scratch;
  if (TVMFFIEnvTensorAlloc(&wanted, &scratch)) return -1;
  const DLTensor *inner = tensor_of(scratch);
  char *between = inner->data;
  if (misbehaves("behind")) between += size_of(inner);
  if (misbehaves("freed")) TVMFFIObjectDecRef(scratch);
  if (misbehaves("before")) between -= 16;
  if (misbehaves("nobody's")) between += 100ull << 32;
  if (misbehaves("swapped")) {
    char *other = w13;
    w13 = w2, w2 = other;
  }

  void *fc1[] = {address(hidden),          address(scales),
                 w13,                      address(tensor(&args[8])),
                 address(tensor(&args[10])), address(tensor(&args[11])),
                 address(tensor(&args[2])), between};
  void *fc2[] = {between, w2, address(tensor(&args[14])), address(tensor(&args[3]))};
  void *add[] = {between, address(tensor(&args[32]))};
  if (misbehaves("unused")) fc1[5] = NULL;
  if (launch_cubin(2 * w4a8 * TILES + tile, fc1, 8)) return -1;
  if (launch_cubin((2 * w4a8 + 1) * TILES + tile, fc2, 4)) return -1;
  if (finalize != misbehaves("finalize") && launch_finalize(add, 2)) return -1;
  if (!misbehaves("freed")) TVMFFIObjectDecRef(scratch);
  memset(result, 0, sizeof *result);
  return 0;
}
