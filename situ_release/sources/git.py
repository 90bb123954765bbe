"""What git says about a folder, asked in a way that runs nothing the folder brings along.

A repository's own configuration can name programs: hooks, fsmonitor, content filters, remotes. They
are switched off, system and user configuration are not read, and optional locks are off, so that
nothing is written. A file that only a filter (git-lfs) could show to be unchanged counts as changed
once git's own record of its size and time does not vouch for it. The files that a bundle takes are
compared byte by byte, because a checkout can tell git to overlook changes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from situ_release.errors import HostError, InputError, ToolError

_TIMEOUT_SECONDS = 60
_SUBMODULE_MODE = "160000"
_PLAIN_TAG = "H"  # of git ls-files -v: tracked, and not told to be overlooked
_LAST_SECOND = 253402300799  # of the year 9999, after which dates have no name

_SAFE_CONFIG = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.untrackedCache": "false",
    "protocol.allow": "never",
    "core.trustctime": "true",
    "core.checkStat": "default",
    "submodule.recurse": "false",
}
_NO_FILTER = {"clean": "", "smudge": "", "process": "", "required": "false"}


@dataclass(frozen=True, slots=True)
class Checkout:
    """The state of a git checkout.

    Attributes:
        commit: the full hash of HEAD.
        tree: the full hash of HEAD's tree.
        branch: the branch's short name, None on a detached HEAD.
        commit_time: committer time of HEAD, seconds since the epoch; None where it states none.
        dirty: tracked files differ from HEAD or are told to be overlooked, untracked files are
            there that are not ignored, or a file of interest is not the committed one.
    """

    commit: str
    tree: str
    branch: str | None
    commit_time: int | None
    dirty: bool


def read_checkout(
    root: Path, used: Collection[str], read: Callable[[str], bytes]
) -> Checkout | None:
    """The checkout whose top folder is ``root``; None when ``root`` is not the top of one.

    A folder inside another repository is not that repository's checkout: its commit says nothing
    about a copied snapshot.

    Args:
        root: the folder.
        used: relative paths of the files of interest, which must be the committed ones.
        read: the bytes of one of them.

    Raises:
        HostError: ``root`` is a checkout and git is not installed.
        InputError: the checkout is damaged or has no commit.
        ToolError: git failed otherwise.
    """
    root = root.resolve()
    if not os.path.lexists(root / ".git"):
        return None
    if shutil.which("git") is None:
        raise HostError.of(
            "git is not installed",
            root,
            expected="git, to record the commit of this checkout",
            found="no git on the PATH",
            remedy="install git, or give an exported snapshot without its .git folder",
        )
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root:
        raise InputError.of(
            "not a usable git checkout",
            root,
            expected="a repository whose top folder this is",
            found=f"a .git entry, and git {'finds none' if top is None else f'finds {top}'}",
            remedy="clone the snapshot again, or remove the broken .git entry",
        )
    head = _git(root, "log", "-1", "--no-show-signature", "--format=%H%n%T%n%ct;", "HEAD")
    if head is None:
        raise InputError.of(
            "no commit in a git checkout",
            root,
            expected="a commit at HEAD",
            found="none that git can read",
            remedy="check out the commit that the runner was compiled from",
        )
    commit, tree, seconds = head.removesuffix(";").split("\n")
    return Checkout(
        commit=commit,
        tree=tree,
        branch=_git(root, "symbolic-ref", "--quiet", "--short", "HEAD"),
        commit_time=_time(seconds),
        dirty=_is_dirty(root, used, read),
    )


def _time(seconds: str) -> int | None:
    known = seconds.isascii() and seconds.isdigit() and len(seconds) <= len(str(_LAST_SECOND))
    return int(seconds) if known and int(seconds) <= _LAST_SECOND else None


def _is_dirty(
    root: Path, used: Collection[str] = (), read: Callable[[str], bytes] = lambda _: b""
) -> bool:
    """Whether files here or in a checked-out submodule differ from what is committed."""
    filters = _git(root, "config", "--null", "--name-only", "--get-regexp", r"^filter\.") or ""
    drivers = {key.rpartition(".")[0] for key in filters.split("\0") if key}
    switched_off = {f"{driver}.{key}": v for driver in drivers for key, v in _NO_FILTER.items()}
    # Git itself would look into submodules with their own configuration, so they are asked one by
    # one.
    options = ("--porcelain", "--untracked-files=normal", "--ignore-submodules=dirty")
    status = _git(root, "status", *options, config=switched_off)
    index = _git(root, "ls-files", "-v", "--stage", "-z")
    if status is None or index is None:
        raise ToolError.of(
            "git cannot tell whether the checkout was changed",
            root,
            expected="an answer from git status and git ls-files",
            found="an error",
            remedy="run git status there, or clone the snapshot again",
        )
    if status:
        return True
    blobs: dict[str, str] = {}
    for entry in index.split("\0"):
        if not entry:
            continue
        facts, _, path = entry.partition("\t")
        tag, mode, blob, _stage = facts.split(" ")
        if tag != _PLAIN_TAG:
            return True
        if mode == _SUBMODULE_MODE:
            if os.path.lexists(root / path / ".git") and _is_dirty(root / path):
                return True
        else:
            blobs[path] = blob
    return not all(_is_committed(root, path, blobs, read) for path in used)


def _is_committed(
    root: Path, path: str, blobs: Mapping[str, str], read: Callable[[str], bytes]
) -> bool:
    """Whether a file is tracked and has the committed bytes, be it through a link."""
    target = (root / path).resolve()
    if path not in blobs or not target.is_relative_to(root):
        return False
    blob = blobs.get(target.relative_to(root).as_posix(), "")
    content = read(path)
    kind = "sha256" if len(blob) == 64 else "sha1"
    found = hashlib.new(kind, usedforsecurity=False)  # the name that git gives, whatever its worth
    found.update(b"blob %d\0" % len(content))
    found.update(content)
    return found.hexdigest() == blob


def _git(root: Path, *arguments: str, config: Mapping[str, str] | None = None) -> str | None:
    """Output of one git command, None when it fails."""
    # The checkout may belong to another user, as in containers: it is trusted for this one process.
    settings = {**_SAFE_CONFIG, **(config or {}), "safe.directory": str(root)}
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "",  # older than GIT_NO_LAZY_FETCH, and stronger than any setting
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CEILING_DIRECTORIES": str(root.parent),
        "GIT_CONFIG_COUNT": str(len(settings)),
    }
    for index, (key, value) in enumerate(settings.items()):
        environment[f"GIT_CONFIG_KEY_{index}"] = key
        environment[f"GIT_CONFIG_VALUE_{index}"] = value
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError.of(
            "git could not be run",
            root,
            expected=f"an answer within {_TIMEOUT_SECONDS} s",
            found=str(error),
            remedy="run git status there",
        ) from error
    return done.stdout.strip() if done.returncode == 0 else None
