"""Which call a failed cubin request belongs to.

An exception cannot pass through the runner, so it is kept here and raised when the call is over.
A runner may ask for a cubin on the thread of the call or on a worker thread of its own:

- on a thread with a call in progress, the failure belongs to that call alone;
- on any other thread it cannot be told whose it is, so it belongs to every call in progress: a
  false alarm in one is better than silence in another;
- while no call is in progress (somebody uses the raw module), it waits for
  :meth:`CallFailures.raise_last`, first of the same thread, else of any.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn

from .errors import BundleError


class _Call:
    """One call in progress, with the first failure it met."""

    failure: BaseException | None = None


class _ThreadState(threading.local):
    call: _Call | None = None
    failure: BaseException | None = None


class CallFailures:
    """Keeps failed requests until their call is over. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = _ThreadState()
        self._calls: set[_Call] = set()
        self._last: BaseException | None = None

    def record(self, failure: BaseException) -> None:
        """Keep ``failure``; to be called from the cubin callback."""
        own = self._thread.call
        with self._lock:
            concerned = self._calls if own is None else {own}
            for call in concerned:
                if call.failure is None:
                    call.failure = failure
            if own is None:
                self._thread.failure = failure
            if not concerned:
                self._last = failure

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call ``function`` and raise what failed inside its cubin requests.

        Raises:
            BundleError: a request failed, whether or not the runner then failed as well.
        """
        call = _Call()
        outer, self._thread.call = self._thread.call, call
        with self._lock:
            self._calls.add(call)
        try:
            result = function(*args)
        except Exception as native:
            if call.failure is not None:
                _surface(call.failure, native)
            raise
        finally:
            self._thread.call = outer
            with self._lock:
                self._calls.discard(call)
        if call.failure is not None:
            _surface(call.failure, call.failure)
        return result

    def raise_last(self) -> None:
        """Raise the failure that waits, once; return when there is none."""
        failure = self._take()
        if failure is not None:
            _surface(failure, failure)

    def clear(self) -> None:
        """Forget the failure that waits."""
        self._take()

    def _take(self) -> BaseException | None:
        failure, self._thread.failure = self._thread.failure, None
        with self._lock:
            if failure is None or failure is self._last:
                failure, self._last = self._last, None
        return failure


def _surface(failure: BaseException, cause: BaseException) -> NoReturn:
    if not isinstance(failure, Exception):
        raise failure  # an interrupt stays an interrupt
    raise BundleError(f"cubin callback failed: {failure}") from cause
