"""The console script, also as ``python -m situ_release``."""

from __future__ import annotations


def main() -> None:
    """Run the command line; an interrupt while it is being imported is no traceback either."""
    try:
        from situ_release.cli.app import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
