"""``situ-release recover``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from situ_release.cli.command import Outcome, execute
from situ_release.cli.console import Console


def recover(
    wheel: Annotated[Path, typer.Argument(readable=False, help="A published bundle wheel.")],
    out: Annotated[
        Path, typer.Option(readable=False, help="Folder to write snapshot, pool and module to.")
    ],
) -> None:
    """Turn a published wheel back into stage inputs: snapshot, pool and module."""
    execute("recover", lambda console: _recover(wheel, out))


def _recover(wheel: Path, out: Path) -> Outcome:
    from situ_release.cli.output.common import FileDigest
    from situ_release.cli.output.recover import RecoverOutput
    from situ_release.wheel.recover import recover_wheel

    recovered = recover_wheel(wheel, out)

    def show(console: Console) -> None:
        console.line(f"recovered {wheel.name} into {out}")
        console.line(f"  snapshot  {recovered.snapshot}")
        console.line(
            f"  pool      {recovered.pool} ({recovered.cubin_count} cubins, "
            f"{recovered.metadata_entries:,} metadata entries)"
        )
        console.line(f"  module    {recovered.module}")
        console.line("A wheel does not tell, and so is left out:")
        for fact in recovered.not_recovered:
            console.line(f"  - {fact}")

    return Outcome(
        RecoverOutput(
            out=str(out),
            wheel=FileDigest(str(wheel), recovered.wheel_sha256),
            snapshot=str(recovered.snapshot),
            pool=str(recovered.pool),
            module=FileDigest(str(recovered.module), recovered.module_sha256),
            cubin_count=recovered.cubin_count,
            metadata_entries=recovered.metadata_entries,
            not_recovered=list(recovered.not_recovered),
        ),
        show,
    )
