"""The package of a wheel under test whose runner is Python on the CPU.

Its text becomes ``__init__.py`` of the wheel. ``FAKE_LAYER`` says how it misbehaves.
"""

import ctypes
import math
import os
import pathlib
import signal
import time

ROOT = pathlib.Path(__file__).parent
MODE = os.environ.get("FAKE_LAYER", "")


class _Module:
    def get_function(self, name):
        return None


def verify_bundle():
    return {path: path.read_bytes() for path in sorted(ROOT.rglob("*.cubin"))}


def load_raw_module():
    return _Module()


def trtllm_fp4_block_scale_moe_raw(*arguments):
    import torch

    if MODE == "raise":
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    if MODE == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if MODE == "hang":
        time.sleep(600)
    given = [torch.from_dlpack(item) if hasattr(item, "__dlpack__") else item for item in arguments]
    layer = _Layer(*given)
    _fetch(layer)
    if MODE != "no allocation":
        layer.scratch()
    if layer.finalize:
        layer.output.copy_(layer.finalized())
        if MODE == "nan":
            layer.output[-1:, -1] = float("nan")
        if MODE == "wrong":
            layer.output.mul_(1.1)
        if MODE == "varies" and len(layer.output):
            layer.output[0, 0] += time.monotonic_ns() % 1009
        if MODE == "process" and len(layer.output):
            layer.output[0, 0] += os.getpid()
        return [None]
    rows, index = layer.deferred()
    return [rows, None, index]


_fetched = set()


def _fetch(layer):
    """Read the cubins of the tactic, each once."""
    if not len(layer.ids):
        return
    tile = layer.tile()
    if MODE == "other kernels" and tile == 16:
        tile = 8
    for path in sorted(ROOT.rglob(f"*_t128x{tile}x*.cubin")):
        if path.name.startswith(layer.families) and path.name not in _fetched:
            _fetched.add(path.name)
            path.read_bytes()


class _Layer:
    """One call, its weights put back into checkpoint order."""

    def __init__(self, *given):
        import torch

        self.ids, self.weights = given[2], given[3]
        self.hidden, self.hidden_scales = given[5], given[6]
        self.top_k = given[21]
        self.inner, self.offset, self.local = given[24], given[25], given[26]
        self.experts = given[20]
        self.finalize, self.output, self.tactic = given[29], given[32], given[33]
        self.beta, self.linear_beta = given[10], given[11]
        rows = torch.arange(2 * self.inner)
        stored = (rows // 32) * 32 + 4 * (rows % 8) + (rows % 32) // 8
        gated = torch.where(stored % 2 == 0, self.inner + stored // 2, stored // 2)
        self.w13 = _back(given[7], gated)
        self.w13_scales = _back(_flat(given[8]), gated)
        rows = torch.arange(self.hidden.shape[1])
        stored = (rows // 32) * 32 + 4 * (rows % 8) + (rows % 32) // 8
        self.w2 = _back(given[13], stored)
        self.w2_scales = _back(_flat(given[14]), stored)

    @property
    def families(self):
        if self.hidden_scales is None:
            return ("Bmm_Bfloat16_MxE2m1Bfloat16",)
        return ("Bmm_MxE4m3_MxE2m1MxE4m3", "Bmm_Bfloat16_MxE2m1MxE4m3")

    def tile(self):
        if self.tactic[0] > 0:
            return self.tactic[0]
        mean = math.ceil(len(self.ids) * self.top_k / self.experts)
        ladder = [8, 16, 32, 64] if self.hidden_scales is None else [8, 16, 32, 64, 128, 256]
        centre = next((tile for tile in ladder if tile >= mean), ladder[-1])
        return ladder[max(ladder.index(centre) - 1, 0)]

    def outputs(self):
        import torch

        from situ_release.smoke.reference.moe import ExpertWeights, Routing, Tokens, expert_outputs

        scales = self.hidden_scales
        tokens = Tokens(self.hidden, None if scales is None else scales.view(torch.uint8))
        self.routing = Routing(self.ids, self.weights)
        self.shard = ExpertWeights(
            self.w13,
            self.w13_scales,
            self.w2,
            self.w2_scales,
            self.beta,
            self.linear_beta,
            0 if MODE == "shard" else self.offset,
        )
        return expert_outputs(tokens, self.routing, self.shard)

    def finalized(self):
        from situ_release.smoke.reference.moe import finalize

        outputs = self.outputs()
        return finalize(outputs, self.routing, self.shard)

    def deferred(self):
        import torch

        outputs = self.outputs()
        local = (self.ids >= self.offset) & (self.ids < self.offset + self.local)
        index = torch.full(self.ids.shape, -1, dtype=torch.int32)
        index[local] = torch.arange(int(local.sum()), dtype=torch.int32).flip(0)
        rows = torch.zeros((max(1, int(local.sum())), self.hidden.shape[1]), dtype=torch.bfloat16)
        rows[index[local].long()] = outputs[local]
        return rows, index.flatten()

    def scratch(self):
        """Two allocations of the environment, as a runner takes them."""
        for size in (64, 4096):
            handle, address = _allocate(size)
            if handle is None:
                return
            if MODE == "uninitialized" and self.finalize and len(self.output):
                self.weights = self.weights + ctypes.c_uint8.from_address(address).value % 2
            ctypes.memset(address, 1, size)
            deferred = MODE == "overrun deferred" and not self.finalize
            if (MODE == "overrun" or deferred) and size == 64:
                ctypes.memset(address + size + 448, 7, 512)
            if MODE == "underrun" and size == 4096:
                ctypes.memset(address - 1, 7, 1)
            _core().TVMFFIObjectDecRef(ctypes.c_void_p(handle))


def _flat(scales):
    """Scales in rows again, out of tiles of 128 by 4."""
    import torch

    experts, rows, blocks = scales.shape
    tiles = scales.view(torch.uint8).reshape(experts, rows // 128, blocks // 4, 32, 4, 4)
    return tiles.permute(0, 1, 4, 3, 2, 5).reshape(experts, rows, blocks)


def _back(stored, order):
    import torch

    plain = torch.empty_like(stored)
    plain[:, order] = stored
    return plain


def _core():
    import tvm_ffi

    return ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())


class _Prototype(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


def _allocate(size):
    core = _core()
    core.TVMFFIEnvGetDLPackManagedTensorAllocator.restype = ctypes.c_void_p
    if not core.TVMFFIEnvGetDLPackManagedTensorAllocator():
        return None, None
    shape = (ctypes.c_int64 * 1)(size)
    prototype = _Prototype(None, 1, 0, 1, 1, 8, 1, shape, None, 0)
    handle = ctypes.c_void_p()
    assert core.TVMFFIEnvTensorAlloc(ctypes.byref(prototype), ctypes.byref(handle)) == 0
    header = 24  # TVMFFIObject, before the DLTensor
    return handle.value, _Prototype.from_address(handle.value + header).data
