"""``python -m situ_release``: the same as the console script."""

from situ_release.cli.app import main

main()
