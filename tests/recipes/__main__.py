"""The recipes' names as a JSON list: the matrix of the CI workflow. Needs nothing but Python."""

from __future__ import annotations

import json
from pathlib import Path

RECIPES = Path(__file__).resolve().parent.parent.parent / "recipes"

if __name__ == "__main__":
    print(json.dumps(sorted(path.stem for path in RECIPES.glob("*.toml"))))
