"""Small native libraries that the tests compile: runners that misbehave, and a stub CUDA."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from tests.synth.wheel import PACKAGE, RUNNER, Files, bundle_files, cubin_of, kernels

TILES = 6
"""Kernels per family: tiles of 8 to 256 tokens."""

_RUNNER_C = r"""
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <tvm/ffi/c_api.h>

extern int TVMFFINoSuchSymbol(void);
extern int TVMFFINoSuchVariable;

static int make_array(TVMFFIAny *items, int count, TVMFFIAny *result) {
  TVMFFIByteArray name = {"ffi.Array", 9};
  TVMFFIObjectHandle function = NULL;
  if (TVMFFIFunctionGetGlobal(&name, &function) != 0) return -1;
  return TVMFFIFunctionCall(function, items, count, result);
}

static TVMFFIAny integer(long value) {
  TVMFFIAny any;
  memset(&any, 0, sizeof any);
  any.type_index = kTVMFFIInt;
  any.v_int64 = value;
  return any;
}

/* The kernel table, as a real runner carries it: names and digests in read-only data. */
const char kernel_table[] = KERNEL_TABLE;

/* Each tile has one kernel per product, so its only tactic is (tile, 0). */
int __tvm_ffi_trtllm_get_valid_moe_configs_private(void *self, const TVMFFIAny *args, int32_t count,
                                                   TVMFFIAny *result) {
#if defined UNDEFINED_FUNCTION
  return TVMFFINoSuchSymbol();
#elif defined UNDEFINED_DATA
  return TVMFFINoSuchVariable;
#elif defined HANG
  for (;;) pause();
#elif defined SEGFAULT
  raise(SIGSEGV);
#elif defined LEAVE
  _exit(0);
#elif defined RAISE
  TVMFFIErrorSetRaisedFromCStr("RuntimeError", "no such device");
  return -1;
#endif
  static const int few[] = {8, 16, 32, 0}, many16[] = {32, 64, 0}, many8[] = {64, 128, 256, 0};
  long tokens = args[12].v_int64;
  const int bf16 = args[0].v_int64 == 1052672;
  const int *tiles = tokens <= 128 ? few : bf16 ? many16 : many8;
  TVMFFIAny rows[4];
  int row = 0;
  memset(rows, 0, sizeof rows);
  for (; tiles[row] && tokens != EMPTY_AT; ++row) {
    TVMFFIAny pair[2] = {integer(tiles[row]), integer(CONFIG)};
    if (make_array(pair, 2, &rows[row]) != 0) return -1;
  }
  return make_array(rows, row, result);
}

#ifndef ONE_ENTRY
int __tvm_ffi_trtllm_fp4_block_scale_moe_private(void *self, const TVMFFIAny *args, int32_t count,
                                                 TVMFFIAny *result) {
  return 0;
}
#endif
"""

_DRIVER_C = r"""
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cuInit(unsigned flags) { return INIT; }
int cuDriverGetVersion(int *version) { *version = DRIVER_CUDA; return 0; }
int cuDeviceGetCount(int *count) { *count = DEVICES; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "Stub GPU", size); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)141 << 30; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 75 ? SM / 10 : SM % 10;
  return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)1; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }

/* Modules are their images; REFUSES says what goes wrong with one whose name has siTuGlu in it. */
static int refuses(const char *what, const char *name) {
  const char *wanted = getenv("STUB_REFUSES");
  return wanted && !strcmp(wanted, what) && strstr(name, "siTuGlu") && strstr(name, "sm103a");
}
int cuModuleLoadData(const void **module, const void *image) {
  const char *bytes = image;
  if (memcmp(bytes, "\x7f""ELF", 4)) return 200;
  *module = image;
  if (getenv("STUB_REFUSES") && !strcmp(getenv("STUB_REFUSES"), "hang")) for (;;) pause();
  return 0;
}
int cuModuleGetFunction(const char **function, const void *module, const char *name) {
  if (refuses("crash", name)) raise(SIGBUS);
  *function = name;
  return refuses("function", name) ? 500 : 0;
}
int cuModuleUnload(const void *module) { return 0; }
int cuFuncGetAttribute(int *value, int attribute, const char *function) {
  *value = attribute == 4 ? 168 : 16;
  return 0;
}
int cuGetErrorName(int code, const char **name) {
  *name = code == 100   ? "CUDA_ERROR_NO_DEVICE"
          : code == 200 ? "CUDA_ERROR_INVALID_IMAGE"
          : code == 500 ? "CUDA_ERROR_NOT_FOUND"
                        : "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
  return 0;
}
"""

_RUNTIME_C = "int cudaRuntimeGetVersion(int *version) { *version = 13000; return 0; }"

_NVML_C = r"""
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
  strncpy(text, "580.1.2", size);
  return 0;
}
"""

_PACKAGE = '''
"""A bundle whose runner is whatever lies in lib/."""
import enum
import pathlib

RUNNER = pathlib.Path(__file__).parent / "lib" / "fused_moe_k3_situ_sm103.so"


class DtypeTrtllmGen(enum.IntEnum):
    BFLOAT16 = 1052672
    MXE2M1 = 17826828
    MXE4M3 = 17827853


class Fp8QuantizationType(enum.IntEnum):
    NONE = 0
    MXFP8 = 2


def verify_bundle():
    return {}


def load_raw_module():
    import tvm_ffi

    return tvm_ffi.load_module(str(RUNNER))


def get_valid_moe_configs(
    dtype_act, dtype_weights, fp8_quantization_type, top_k, hidden_size, intermediate_size,
    num_local_experts, num_total_experts, activation_type, use_shuffled_weight, weight_layout,
    use_per_token_scaling, num_tokens, has_gemm1_lora_delta=False,
):
    return load_raw_module().trtllm_get_valid_moe_configs_private(
        dtype_act, dtype_weights, fp8_quantization_type, top_k, hidden_size, intermediate_size,
        num_local_experts, num_total_experts, activation_type, use_shuffled_weight, weight_layout,
        use_per_token_scaling, num_tokens, has_gemm1_lora_delta,
    )
'''


def compile_library(path: Path, source: str, *options: str) -> Path:
    """Compile one C source into a shared library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.with_name(f"{path.name}.c")
    file.write_text(source, encoding="utf-8")
    command = ["cc", "-shared", "-fPIC", "-O0", "-w", "-o", str(path), str(file), *options]
    subprocess.run(command, check=True)
    return path


def compile_runner(path: Path, *defines: str, options: tuple[str, ...] = ()) -> bytes:
    """A TVM-FFI library with the two entry points; ``defines`` choose how it misbehaves."""
    from tvm_ffi import libinfo

    table = "".join(f'{name}\\0""{digest}\\0""' for name, digest in kernel_pairs())
    knobs = {"EMPTY_AT": "-1", "CONFIG": "0", "KERNEL_TABLE": f'"\\0{table}"'}
    knobs |= {name: value for name, _, value in (define.partition("=") for define in defines)}
    flags = [f"-D{name}={value}" for name, value in knobs.items()]
    includes = [f"-I{libinfo.find_include_path()}", f"-I{libinfo.find_dlpack_include_path()}"]
    return compile_library(path, _RUNNER_C, *includes, *flags, *options).read_bytes()


def compile_cuda(
    folder: Path,
    *,
    init: int = 0,
    devices: int = 1,
    driver_cuda: int = 13000,
    sm: int = 103,
    runtime: bool = True,
) -> Path:
    """Stub driver, NVML and (if wanted) runtime libraries, for a child's LD_LIBRARY_PATH."""
    values = {"INIT": init, "DEVICES": devices, "DRIVER_CUDA": driver_cuda, "SM": sm}
    knobs = [f"-D{name}={value}" for name, value in values.items()]
    compile_library(folder / "libcuda.so.1", _DRIVER_C, *knobs)
    compile_library(folder / "libnvidia-ml.so.1", _NVML_C)
    if runtime:
        soname = "libcudart.so.13"
        compile_library(folder / soname, _RUNTIME_C, f"-Wl,-soname,{soname}")
    return folder


def kernel_pairs() -> list[tuple[str, str]]:
    """Name and digest of every kernel of the bundle, in table order."""
    return sorted(
        (name, hashlib.sha256(cubin_of(name)).hexdigest())
        for family in kernels(TILES).values()
        for name in family
    )


def package_files(runner: bytes) -> Files:
    """A bundle around a compiled runner, with just enough of the public names to be smoked."""
    files = bundle_files(TILES, runner=runner)
    files[f"{PACKAGE}/__init__.py"] = _PACKAGE.encode()
    assert files[RUNNER] == runner
    return files
