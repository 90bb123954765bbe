"""The runner's cubin requests.

The runner exports two C functions, ``FlashInferSetCubinCallback(void (*)(const char *path, const
char *sha256))`` and ``FlashInferSetCurrentCubin(const char *data, int size)``. It calls the first
one's argument whenever it needs a kernel; the callback must answer with the second, which copies
the bytes into a variable of the calling thread.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from typing import Any

from .errors import BundleError
from .failures import CallFailures

SET_CALLBACK = "FlashInferSetCubinCallback"
SET_CURRENT = "FlashInferSetCurrentCubin"

_CallbackType = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)
_log = logging.getLogger(__name__)


class CubinCallback:
    """Answers the cubin requests of one runner.

    Keep the object as long as the library is loaded: the runner holds the bare C pointer.

    Args:
        library: the opened runner.
        read: returns a cubin's bytes for a requested path and SHA-256, or raises.
        failures: where an exception of ``read`` goes.

    Raises:
        BundleError: the library does not export the two C functions.
    """

    def __init__(
        self, library: Any, read: Callable[[str, str], bytes], failures: CallFailures
    ) -> None:
        try:
            set_callback = getattr(library, SET_CALLBACK)
            self._set_current = getattr(library, SET_CURRENT)
        except AttributeError as error:
            raise BundleError(f"the runner cannot be given cubins: {error}") from error
        self._read = read
        self._failures = failures
        self._set_current.argtypes = (ctypes.c_char_p, ctypes.c_int)
        self._set_current.restype = None
        set_callback.argtypes = (_CallbackType,)
        set_callback.restype = None
        self._function = _CallbackType(self._serve)
        set_callback(self._function)

    def _serve(self, path: bytes | None, sha256: bytes | None) -> None:
        # Empty bytes when the request fails: the cubin of an earlier request must not stay current.
        data = b""
        try:
            requested = _text(path)
            data = self._read(requested, _text(sha256))
            _log.debug("cubin %s, %d bytes", requested.rpartition("/")[2], len(data))
        except BaseException as failure:  # noqa: BLE001 - nothing may be raised into native code
            self._failures.record(failure)
        self._set_current(data, len(data))


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "backslashreplace")
