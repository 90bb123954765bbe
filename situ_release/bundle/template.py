"""From payload templates to a buildable project.

``payload/shared`` is what every bundle has, ``payload/<template>`` what one has besides; a file of
the template replaces a shared one of the same name. Both are copied with two changes: the folder
``package`` gets the import package's name, and ``@name@`` is replaced by a value: as plain text,
or, in a file ``NAME.in`` (written to ``NAME``), as a TOML literal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from situ_release.bundle.recipe import Recipe
from situ_release.errors import InputError, Problem, raise_all

Value = str | Sequence[str] | Mapping[str, str]
"""What a placeholder can stand for; only a string fits outside ``.in`` files."""

SHARED = "shared"
PACKAGE = "package"

_PLACEHOLDER = re.compile(r"@([a-z][a-z0-9_]*)@")
_LITERAL_SUFFIX = ".in"
_IGNORED_FOLDER = "__pycache__"


def template_values(recipe: Recipe, version: str) -> dict[str, Value]:
    """The values that templates may name, all from the recipe.

    Args:
        recipe: the bundle's recipe.
        version: the package version, which may override the recipe's.
    """
    package = recipe.package
    return {
        "distribution": package.distribution,
        "import_name": package.import_name,
        "version": version,
        "summary": package.summary,
        "license_expression": package.license_expression,
        "requires_python": package.requires_python,
        "requires_dist": package.requires_dist,
        "classifiers": package.classifiers,
        "urls": package.urls,
        "sbom_files": [recipe.sbom_name],
        "wheel_tag": f"py3-none-{recipe.target.platform}",
        "architecture": recipe.target.architecture,
        "cuda_major": str(recipe.target.cuda_major),
        "cubin_count": str(recipe.cubin_count),
        "families_table": _table(
            ("family", "role", "architecture", "cubins"),
            ((one.name, one.role, one.arch, one.count) for one in recipe.families),
        ),
        "contracts_table": _table(
            ("contract", "activations", "experts", "offset", "hidden", "intermediate", "top-k"),
            (
                (
                    one.name,
                    one.dtype_activation,
                    f"{one.local_num_experts} of {one.num_experts}",
                    one.local_expert_offset,
                    one.hidden_size,
                    one.physical_intermediate_size,
                    one.top_k,
                )
                for one in recipe.contracts
            ),
        ),
        "limitations": "\n".join(f"- {sentence}" for sentence in recipe.limitations),
    }


def render_template(template: Path, destination: Path, values: Mapping[str, Value]) -> None:
    """Write the project of ``template`` and its sibling ``shared`` into ``destination``.

    Args:
        template: the template's folder.
        destination: the project's folder; made if absent. Files get mode 0644, folders 0755.
        values: by placeholder name; ``import_name`` is needed even if no file names it.

    Raises:
        InputError: see :func:`rendered_files`.
    """
    texts = rendered_files(template, values)
    _make_folder(destination)
    for name, text in texts.items():
        head, _, rest = name.partition("/")
        target = destination / (f"{values['import_name']}/{rest}" if head == PACKAGE else name)
        _make_folder(target.parent)
        target.write_text(text, encoding="utf-8", newline="\n")
        target.chmod(0o644)


def rendered_files(template: Path, values: Mapping[str, Value]) -> dict[str, str]:
    """The text of every file of ``template`` and its sibling ``shared``, by its path in them.

    Args:
        template: the template's folder.
        values: by placeholder name.

    Raises:
        InputError: no such template, a file that is not UTF-8 text, or a placeholder without a
            fitting value; all of one kind are listed.
    """
    if not template.is_dir() or template.name == SHARED:
        raise InputError.of(
            "there is no such payload template",
            template,
            expected="a folder with the bundle's own files beside the folder 'shared'",
            found="no folder" if not template.is_dir() else "the shared files themselves",
            remedy="correct the recipe's key template",
        )
    files = _files(template.parent / SHARED) | _files(template)
    problems: list[Problem] = []
    texts = {name: _render(path, values, problems) for name, path in sorted(files.items())}
    raise_all(InputError, problems)
    return texts


def _make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o755)


def _files(folder: Path) -> dict[str, Path]:
    return {
        path.relative_to(folder).as_posix().removesuffix(_LITERAL_SUFFIX): path
        for path in folder.rglob("*")
        if path.is_file() and _IGNORED_FOLDER not in path.parts
    }


def _render(path: Path, values: Mapping[str, Value], problems: list[Problem]) -> str:
    literal = path.suffix == _LITERAL_SUFFIX

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        value = values.get(name)
        if value is None or not (literal or isinstance(value, str)):
            problems.append(
                Problem(
                    what=f"the placeholder @{name}@ cannot be filled",
                    where=str(path),
                    expected=f"one of {', '.join(sorted(values))}",
                    found="no value of that name" if value is None else "a list or table in text",
                    remedy="correct the template",
                )
            )
            return ""
        return _toml_literal(value) if literal else str(value)

    try:
        return _PLACEHOLDER.sub(replacement, path.read_bytes().decode("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        problems.append(
            Problem(
                what="cannot read the template file",
                where=str(path),
                expected="UTF-8 text",
                found=str(error),
                remedy="restore the file from the release of situ-release",
            )
        )
        return ""


def _toml_literal(value: Value) -> str:
    # A string, or an array of strings, is spelled alike in JSON and TOML.
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(key)} = {json.dumps(text)}" for key, text in value.items())
        return f"{{ {', '.join(pairs)} }}"
    return json.dumps(value if isinstance(value, str) else list(value), ensure_ascii=False)


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
