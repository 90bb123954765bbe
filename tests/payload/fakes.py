"""Stand-ins for the runner: a TVM-FFI module and the same library seen through ctypes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.payload.assemble import CONFIGS, MOE, Package


class FakeRunner:
    """Records what is called; ``behaviour`` decides what an entry point does."""

    def __init__(self, entry_points: tuple[str, ...] = (MOE, CONFIGS)) -> None:
        self.entry_points = entry_points
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.current: list[bytes] = []
        self.opened: list[str] = []
        self.behaviour: Callable[..., Any] = lambda *args: "result"
        self.set_callback = SimpleCFunction(self._register)
        self.set_current = SimpleCFunction(self._take)
        self._ask: Callable[[bytes | None, bytes | None], None] | None = None

    def _register(self, function: Callable[[bytes | None, bytes | None], None]) -> None:
        self._ask = function

    def _take(self, data: Any, size: int) -> None:
        self.current.append(ctypes.string_at(data, size))

    def ask(self, path: str | bytes | None, sha256: str | None) -> bytes:
        """What the runner does when it needs a kernel; returns the cubin it got."""
        assert self._ask is not None, "no callback was registered"
        name = path.encode() if isinstance(path, str) else path
        self._ask(name, sha256.encode() if sha256 is not None else None)
        return self.current[-1]

    def implements_function(self, name: str) -> bool:
        return name in self.entry_points

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name not in self.entry_points:
            raise AttributeError(name)

        def entry_point(*args: Any) -> Any:
            self.calls.append((name, args))
            return self.behaviour(*args)

        return entry_point


class SimpleCFunction:
    """A ctypes function as far as the loader looks at it: it can be typed and called."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self.argtypes: object = None
        self.restype: object = int

    def __call__(self, *args: Any) -> None:
        self._function(*args)


def replace_native(runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put ``runner`` in the place of apache-tvm-ffi and of every library opened through ctypes."""

    def load_module(path: str) -> FakeRunner:
        runner.opened.append(path)
        return runner

    tvm_ffi = ModuleType("tvm_ffi")
    tvm_ffi.load_module = load_module  # type: ignore[attr-defined]
    library = SimpleNamespace(
        FlashInferSetCubinCallback=runner.set_callback,
        FlashInferSetCurrentCubin=runner.set_current,
    )
    monkeypatch.setitem(sys.modules, "tvm_ffi", tvm_ffi)
    monkeypatch.setattr(ctypes, "CDLL", lambda *args, **kwargs: library)


def install(package: Package, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import ``package`` with ``runner`` in place of the library it would open."""
    module = package.load()
    replace_native(runner, monkeypatch)
    return module


class Tensor:
    """Anything with a shape."""

    def __init__(self, *shape: Any) -> None:
        self.shape = shape

    def __repr__(self) -> str:
        return f"Tensor{self.shape}"


def k3_arguments(tokens: int = 4, **changes: Any) -> dict[str, Any]:
    """Keyword arguments of a supported call, some replaced."""
    local = changes.get("local_num_experts", 896)
    arguments: dict[str, Any] = {
        "topk_ids": Tensor(tokens, 16),
        "topk_weights": Tensor(tokens, 16),
        "hidden_states": Tensor(tokens, 3584),
        "gemm1_weights": Tensor(local, 768, 1792),
        "gemm1_weights_scale": Tensor(local, 768, 112),
        "gemm1_alpha": Tensor(local),
        "gemm1_beta": Tensor(local),
        "gemm2_weights": Tensor(local, 3584, 192),
        "gemm2_weights_scale": Tensor(local, 3584, 12),
        "output": Tensor(tokens, 3584),
        "intermediate_size": 384,
        "local_expert_offset": 0,
        "local_num_experts": 896,
    }
    return arguments | changes
