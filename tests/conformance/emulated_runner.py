"""Child process: the compiled runner on emulated CUDA libraries, host memory posing as a device's.

`python -m tests.conformance.emulated_runner BUILD REQUEST.json`, with the emulator's folder on
LD_LIBRARY_PATH; prints one JSON object for each case.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import ClassVar

import torch
import tvm_ffi

from tests.conformance import plain_moe

_DTYPES = {
    torch.bfloat16: (4, 16),
    torch.float8_e4m3fn: (10, 8),
    torch.uint8: (1, 8),
    torch.int32: (0, 32),
    torch.float32: (2, 32),
}
_CUDA = 2


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensor(ctypes.Structure):
    _fields_ = (("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Posing:
    """A torch tensor of the host, offered through DLPack as one of CUDA device 0."""

    kept: ClassVar[list[object]] = []

    def __init__(self, tensor):
        assert tensor.is_contiguous()
        code, bits = _DTYPES[tensor.dtype]
        sizes = (ctypes.c_int64 * max(tensor.ndim, 1))(*tensor.shape)
        strides = (ctypes.c_int64 * max(tensor.ndim, 1))(*tensor.stride())
        self.managed = _DLManagedTensor(
            _DLTensor(tensor.data_ptr(), _CUDA, 0, tensor.ndim, code, bits, 1, sizes, strides, 0),
            None,
            None,
        )
        _Posing.kept.append((tensor, sizes, strides, self.managed))

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.managed), b"dltensor", None)

    def __dlpack_device__(self):
        return (_CUDA, 0)


def posing(value):
    """Tensors posing as device tensors; anything else as it is."""
    return tvm_ffi.from_dlpack(_Posing(value)) if isinstance(value, torch.Tensor) else value


def read_back(tensor, dtype):
    """A host tensor with the content of a posing one."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = (ctypes.py_object, ctypes.c_char_p)
    capsule = tensor.__dlpack__()
    address = _DLManagedTensor.from_address(get(capsule, b"dltensor")).tensor.data
    host = torch.empty(tuple(tensor.shape), dtype=dtype)
    ctypes.memmove(host.data_ptr(), address, host.numel() * host.element_size())
    return host


class EmulatedRunner:
    """The runner with its cubins, and what it did."""

    def __init__(self, build):
        (path,) = build.glob("*.so")
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.driver.emulator_take_log.restype = ctypes.c_char_p
        core = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())
        allocate = ctypes.cast(self.driver.emulator_allocate, ctypes.c_void_p)
        assert core.TVMFFIEnvSetDLPackManagedTensorAllocator(allocate, 1, None) == 0
        library = ctypes.CDLL(str(path))
        self.module = tvm_ffi.load_module(str(path))
        self.pool = build / "pool"
        self.requests = []
        self.set_current = library.FlashInferSetCurrentCubin
        self.set_current.argtypes = (ctypes.c_char_p, ctypes.c_int)
        self.callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)(self._serve)
        library.FlashInferSetCubinCallback(self.callback)

    def _serve(self, path, sha256):
        data = (self.pool / path.decode()).read_bytes()
        assert hashlib.sha256(data).hexdigest() == sha256.decode()
        self.requests.append(path.decode())
        self.set_current(data, len(data))

    def configs(self, *arguments):
        answer = self.module.trtllm_get_valid_moe_configs_private(*arguments)
        return [[int(tile), int(config)] for tile, config in answer]

    def moe(self, *arguments):
        answer = self.module.trtllm_fp4_block_scale_moe_private(*map(posing, arguments))
        return list(answer)

    def launched(self):
        return self.driver.emulator_take_log().decode().split()


# Positions of arguments that a case may spoil.
_POSITIONS = {
    "routing_input_mode": 0,
    "topk_ids": 2,
    "gemm1_weights": 7,
    "gemm2_weights_scale": 14,
    "intermediate_size": 24,
    "act_type": 31,
}


def spoil(arguments, name, how):
    """Give an argument another shape, dtype or value."""
    position = _POSITIONS[name]
    if how == "shape":
        arguments[position] = arguments[position][:1].contiguous()
    elif how == "dtype":
        arguments[position] = arguments[position].float()
    else:
        arguments[position] = how


def mutate(problem, mutant):
    """Make the runner compute something else than the reference did."""
    if mutant == "swapped betas":
        problem.beta, problem.linear_beta = problem.linear_beta, problem.beta
    elif mutant == "swapped halves":
        swapped = (torch.cat(matrix.chunk(2, dim=1)[::-1], dim=1) for matrix in problem.gate_up)
        problem.gate_up_stored = plain_moe.store_gate_up(*swapped)
    else:
        problem.ids = torch.where(problem.ids == problem.ids[0, 0], -1, problem.ids)


def run_case(runner, case):
    """Run one case against the plain reference; figures and what was launched."""
    problem = plain_moe.make_problem(
        case["precision"],
        case["tokens"],
        case["hidden"],
        case["inner"],
        case["experts"],
        case["top_k"],
        offset=case.get("offset", 0),
        local=case.get("local"),
        seed=case.get("seed", 0),
    )
    expected, is_local = plain_moe.expert_outputs(problem)
    output = torch.full((case["tokens"], case["hidden"]), float("nan"), dtype=torch.bfloat16)
    finalize = case.get("finalize", True)
    wanted = plain_moe.finalize(expected, is_local, problem.weights)
    if "mutant" in case:
        mutate(problem, case["mutant"])
    arguments = plain_moe.arguments(
        problem,
        output,
        case.get("tactic", (-1, -1)),
        finalize=finalize,
        packed=case.get("packed", False),
    )
    if "spoil" in case:
        spoil(arguments, *case["spoil"])
    runner.launched()
    start = time.monotonic()
    answer = runner.moe(*arguments)
    seconds = time.monotonic() - start
    figures = {"launched": runner.launched(), "seconds": seconds}
    if finalize:
        figures["answer"] = [item is None for item in answer]
    else:
        rows = read_back(answer[0], torch.bfloat16)
        index = read_back(answer[2], torch.int32).reshape(problem.ids.shape)
        figures["answer"] = [list(rows.shape), answer[1] is None, index.flatten().tolist()]
        figures["untouched"] = bool(output.isnan().all())
        figures["local_agrees"] = bool(((index >= 0) == is_local).all())
        output = torch.where(is_local[..., None], rows[index.clamp_min(0).long()], 0)
        wanted = expected
    figures["finite"] = bool(output.isfinite().all())
    figures["cosine"], figures["l2"], figures["worst"] = plain_moe.compare(output, wanted)
    return figures


def main(build, request):
    runner = EmulatedRunner(Path(build))
    for case in json.loads(Path(request).read_text()):
        try:
            if "configs" in case:
                figures = {"configs": runner.configs(*case["configs"])}
            else:
                figures = run_case(runner, case)
        except (RuntimeError, ValueError, TypeError) as error:
            figures = {"error": f"{type(error).__name__}: {error}"}
        figures["requests"], runner.requests[:] = list(runner.requests), []
        figures["guards"] = runner.driver.emulator_damaged_guards()
        figures["live"] = runner.driver.emulator_live_blocks()
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
