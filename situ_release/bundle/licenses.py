"""The licence texts a bundle carries, out of the snapshot."""

from __future__ import annotations

from situ_release.bundle.recipe import Recipe
from situ_release.errors import InputError, Problem, raise_all
from situ_release.sources.snapshot import Snapshot

EXTRA_FOLDER = "licenses/third_party"
"""Where texts of the snapshot's own ``licenses/`` folder go, relative to the import package."""


def license_files(recipe: Recipe, snapshot: Snapshot) -> dict[str, bytes]:
    """Every licence text of the bundle: path relative to the import package -> content.

    Texts that the recipe requires come first in the snapshot's order of alternatives; whatever else
    the snapshot has in ``licenses/`` is carried along, because NOTICE texts refer to it.

    Raises:
        InputError: the snapshot has none of the places the recipe names, or the text is empty.
    """
    files = {}
    problems = []
    for text in recipe.licenses:
        found = next((name for name in text.source if name in snapshot.licenses), None)
        content = snapshot.read(snapshot.licenses[found]) if found is not None else b""
        if not content.strip():
            problems.append(
                Problem(
                    f"a required licence text of {text.component} is missing",
                    snapshot.where,
                    expected=" or ".join(text.source),
                    found="an empty file" if found is not None else "no such file",
                    remedy="give a complete snapshot; a wheel without its licences is not built",
                )
            )
        files[text.path] = content
    raise_all(InputError, problems)
    used = {name for text in recipe.licenses for name in text.source}
    for name, path in snapshot.licenses.items():
        if name not in used and name.startswith("licenses/"):
            files[f"{EXTRA_FOLDER}/{name.removeprefix('licenses/')}"] = snapshot.read(path)
    return files
