"""Signatures by OpenSSH keys, as git makes them: ``ssh-keygen -Y sign`` and ``-Y verify``.

Who may sign what is a file in the format that ``ssh-keygen(1)`` describes under ALLOWED SIGNERS: a
line ``<identity> [namespaces="…"] <public key>`` for each. A namespace keeps a signature that was
made for one purpose from counting for another.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from situ_release.errors import HostError, InputError, Problem, ToolError

_PROGRAM = "ssh-keygen"
_TIMEOUT_SECONDS = 60
_LAST_LINES = 5


def find_ssh_keygen() -> str:
    """The path of ``ssh-keygen``.

    Raises:
        HostError: this host has none.
    """
    found = shutil.which(_PROGRAM)
    if found is None:
        raise HostError.of(
            "this host cannot make or check signatures",
            _PROGRAM,
            expected=f"{_PROGRAM} of OpenSSH 8.2 or newer on the PATH",
            found="no such program",
            remedy="install OpenSSH's client programs (openssh-client)",
        )
    return found


def sign(message: bytes, key: Path, namespace: str) -> str:
    """An armoured signature.

    Args:
        message: what is signed.
        key: a private key, or the public key of one that an agent holds.
        namespace: the purpose.

    Raises:
        HostError: no ``ssh-keygen``.
        InputError: there is no such key.
        ToolError: ``ssh-keygen`` refused, for example for a wrong passphrase.
    """
    program = find_ssh_keygen()
    if not key.is_file():
        raise InputError.of(
            "cannot read the signing key",
            key,
            expected="a private SSH key, or the public key of one in an agent",
            found="a folder" if key.is_dir() else "no such file",
            remedy="check --key",
        )
    # No time limit: a person may be asked for a passphrase, or to touch a security key.
    done = subprocess.run(
        [program, "-Y", "sign", "-f", str(key), "-n", namespace],
        input=message,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        problem = Problem(
            f"{_PROGRAM} made no signature",
            str(key),
            expected="a key that can sign",
            found=f"exit status {done.returncode}",
            remedy="use a key that is readable by you alone, and its passphrase",
        )
        raise ToolError(problem, log_tail=_tail(done.stderr))
    return done.stdout.decode("ascii", "replace")


def signature_fault(
    message: bytes, signature: str, identity: str, namespace: str, allowed_signers: Path
) -> str | None:
    """Why a signature does not count, None for one that does.

    A key that has expired by its line in the file of allowed signers does not count.

    Args:
        message: what is said to be signed.
        signature: armoured, as :func:`sign` gives it.
        identity: who is said to have signed; it must be a principal of the key's line.
        namespace: the purpose.
        allowed_signers: the keys of those who may sign.

    Raises:
        HostError: no ``ssh-keygen``.
        InputError: the file of allowed signers cannot be read.
    """
    program = find_ssh_keygen()
    if not allowed_signers.is_file():
        raise InputError.of(
            "cannot read the allowed signers",
            allowed_signers,
            expected="a file of identities and public keys, as ssh-keygen(1) describes it",
            found="a folder" if allowed_signers.is_dir() else "no such file",
            remedy="check --allowed-signers",
        )
    with tempfile.TemporaryDirectory(prefix="situ-release-") as folder:
        file = Path(folder) / "signature"
        file.write_text(signature, encoding="utf-8")
        common = ["-n", namespace, "-s", str(file)]
        verify = ["verify", "-f", str(allowed_signers), "-I", identity]
        if _accepts([program, "-Y", *verify, *common], message):
            return None
        # The signature alone, whoever made it: it tells a changed record from an unknown signer.
        if _accepts([program, "-Y", "check-novalidate", *common], message):
            return f"the key that signed it is not one that {identity} may use for this"
        return "the signature does not fit: the record or the signature was changed"


def _accepts(command: list[str], message: bytes) -> bool:
    try:
        done = subprocess.run(
            command, input=message, capture_output=True, check=False, timeout=_TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _tail(output: bytes) -> str:
    return "\n".join(output.decode("utf-8", "replace").splitlines()[-_LAST_LINES:])
