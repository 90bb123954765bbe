"""Write what is generated: JSON Schemas and docs/checks.md (``make schemas``)."""

from __future__ import annotations

from pathlib import Path

from situ_release import canonical, resources
from situ_release.checks.catalog import markdown
from situ_release.cli.schemas import all_schemas

CHECKS = Path(__file__).resolve().parent.parent / "docs" / "checks.md"


def checks_page() -> str:
    """A section for each check: what it is about, what makes it fail, what to do."""
    origin = "Generated from `situ_release/data/checks.toml` by `make schemas`."
    return f"# The checks of `situ-release verify`\n\n{origin}\n\n{markdown()}"


def main() -> None:
    folder = resources.DATA / "schemas"
    for name, schema in all_schemas().items():
        (folder / f"{name}.schema.json").write_text(canonical.dumps(schema), encoding="utf-8")
    CHECKS.write_text(checks_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
