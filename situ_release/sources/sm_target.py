"""Names of compilation targets and which devices run them."""

from __future__ import annotations


def target_name(sm: int, suffix: str = "", *, real: bool = True) -> str:
    """``sm_103a`` for machine code, ``compute_103a`` for an intermediate form (``real=False``)."""
    return f"{'sm' if real else 'compute'}_{sm}{suffix}"


def runs_on(sm: int, suffix: str, device: int, *, any_later: bool = False) -> bool:
    """Whether code for ``sm`` with that suffix runs on a device of SM number ``device``.

    ``a`` runs on exactly its SM; ``f`` and no suffix on it and on later minors of the same major
    (``sm_100f`` on sm_100, sm_103, …).

    Args:
        sm: SM number the code was compiled for (103 is major 10, minor 3).
        suffix: "a", "f" or "".
        device: SM number of the device.
        any_later: the code is PTX: without a suffix it is compiled for every later device.
    """
    if suffix == "a":
        return device == sm
    same_major = device // 10 == sm // 10
    return device >= sm and (same_major or (any_later and not suffix))
