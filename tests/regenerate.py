"""Write the JSON Schemas that ship with the package (``make schemas``)."""

from __future__ import annotations

from situ_release import canonical, resources
from situ_release.cli.schemas import all_schemas


def main() -> None:
    folder = resources.DATA / "schemas"
    for name, schema in all_schemas().items():
        (folder / f"{name}.schema.json").write_text(canonical.dumps(schema), encoding="utf-8")


if __name__ == "__main__":
    main()
