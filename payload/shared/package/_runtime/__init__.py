"""What every bundle shares: manifest, integrity, opening the runner, serving its cubin requests.

Nothing here knows a particular bundle. A package makes one :class:`Bundle` for its own folder;
``arguments``, ``moe`` and ``trtllm_gen`` are for packages whose runner computes a mixture of
experts.
"""

from __future__ import annotations

from .bundle import Bundle
from .errors import BundleError

__all__ = ["Bundle", "BundleError"]
