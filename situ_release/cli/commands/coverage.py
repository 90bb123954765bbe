"""``situ-release coverage``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from situ_release.cli.command import Outcome, execute
from situ_release.cli.console import Console
from situ_release.text import size_text

if TYPE_CHECKING:
    from situ_release.bundle.coverage import DeviceCoverage
    from situ_release.cli.output.coverage import DeviceOutput, TacticListOutput
    from situ_release.wheel.cover import WheelCoverage


def coverage(
    wheel: Annotated[Path, typer.Argument(readable=False, help="A bundle wheel.")],
    recipe: Annotated[
        Optional[str], typer.Option(help="Recipe, where it is not the one the wheel names.")
    ] = None,
    sm: Annotated[
        Optional[list[int]], typer.Option(help="SM number of a device; may be given several times.")
    ] = None,
    list_tactics: Annotated[
        bool, typer.Option("--list", help="List the tactics of every contract for --tokens.")
    ] = False,
    tokens: Annotated[
        Optional[int], typer.Option(min=1, help="Token count of the list. [default: 1]")
    ] = None,
) -> None:
    """Prove that every kernel the runner can select is bundled; only the recipe's SMs decide."""
    execute(
        "coverage",
        lambda console: _coverage(wheel, recipe, sm, (tokens or 1) if list_tactics else tokens),
    )


def _coverage(
    wheel: Path, recipe: str | None, sms: list[int] | None, tokens: int | None
) -> Outcome:
    from situ_release.cli.output.common import FileDigest
    from situ_release.cli.output.coverage import CoverageOutput, TacticListOutput
    from situ_release.wheel.cover import cover_wheel

    covered = cover_wheel(wheel, recipe, sms)
    target = covered.loaded.recipe.target.sms
    devices = {f"sm{device.sm}": _device(device, covered) for device in covered.devices}
    lists = None
    if tokens is not None:
        lists = [
            TacticListOutput(
                f"sm{device.sm}",
                contract.name,
                tokens,
                covered.model.tactics(contract, device.sm, tokens),
            )
            for device in covered.devices
            for contract in covered.loaded.recipe.contracts
        ]
    faults = any(device.missing for device in covered.devices if device.target)

    def show(console: Console) -> None:
        names = ", ".join(f"sm_{number}" for number in target)
        console.line(f"{wheel.name}: recipe {covered.loaded.recipe.name}, made for {names}")
        for name, device in sorted(devices.items(), key=lambda item: not item[1].target):
            if device.target or sms or console.verbose:
                _show_device(console, name, device)
            else:
                _show_elsewhere(console, name, device)
        for item in lists or []:
            _show_list(console, item)
        _show_verdict(console, devices)

    return Outcome(
        CoverageOutput(
            wheel=FileDigest(str(wheel), covered.sha256),
            recipe=covered.loaded.recipe.name,
            rules=covered.model.rules.name,
            devices=devices,
            tactics=lists,
        ),
        show,
        exit_code=1 if faults else 0,
    )


def _device(device: DeviceCoverage, covered: WheelCoverage) -> DeviceOutput:
    from situ_release.cli.output.coverage import ContractOutput, DeviceOutput

    return DeviceOutput(
        target=device.target,
        runs=covered.runs_on(device.sm),
        device_code=sorted({module.target for module in covered.runner.device_modules}),
        selectable=len(device.selectable),
        missing=list(device.missing),
        unreachable=list(device.unreachable),
        unreachable_bytes=sum(covered.sizes[name] for name in device.unreachable),
        contracts=[
            ContractOutput(
                name=item.name,
                tactics=item.tactics,
                passing=len(item.passing),
                selectable=list(item.selectable),
                default=list(item.default),
                missing=list(item.missing),
                unreachable=sorted(set(covered.sizes) - set(item.selectable)),
            )
            for item in device.contracts
        ],
    )


def _show_device(console: Console, name: str, device: DeviceOutput) -> None:
    console.line()
    console.paragraph(f"{name}{' (target)' if device.target else ''}: {_own_code(device)}", 0)
    console.table(
        ["contract", "tactics", "kept", "selectable", "default", "missing"],
        [
            [c.name, c.tactics, c.passing, len(c.selectable), len(c.default), len(c.missing)]
            for c in device.contracts
        ],
    )
    if device.missing:
        meaning = "fail" if device.target else "note"
        console.marked(meaning, "missing: ", f"{len(device.missing)} selectable kernels")
        for kernel in device.missing if device.target or console.verbose else []:
            console.line(f"  {kernel}")
    weight = size_text(device.unreachable_bytes)
    text = f"{len(device.unreachable)} bundled cubins ({weight}) can never be selected"
    console.marked("note", "unreachable: ", text)
    for kernel in device.unreachable if console.verbose else []:
        console.line(f"  {kernel}")


def _show_elsewhere(console: Console, name: str, device: DeviceOutput) -> None:
    """A device that the bundle is not made for, in one sentence."""
    console.line()
    lacking = f"{len(device.missing)} of {device.selectable} selectable kernels are not bundled"
    console.paragraph(f"{name}, not a target: {_own_code(device)}; {lacking}", 0)


def _own_code(device: DeviceOutput) -> str:
    code = ", ".join(device.device_code) or "none"
    verdict = "runs here" if device.runs else "does NOT run here, whatever the cubins"
    return f"the runner's own device code ({code}) {verdict}"


def _show_verdict(console: Console, devices: dict[str, DeviceOutput]) -> None:
    console.line()
    for name, device in devices.items():
        if device.target and device.missing:
            console.marked("fail", f"{name}: NOT closed", f", {len(device.missing)} missing")
        elif device.target:
            text = f", all {device.selectable} selectable kernels are bundled"
            console.marked("pass", f"{name}: closed", text)
    if not any(device.target for device in devices.values()):
        console.line("No target of the recipe was asked for: nothing is decided.")


def _show_list(console: Console, item: TacticListOutput) -> None:
    console.line()
    console.line(
        f"{item.device} {item.contract}, {item.tokens} tokens: {len(item.tactics)} tactics"
    )
    by_tile: dict[int, list[int]] = {}
    for tile, config in item.tactics:
        by_tile.setdefault(tile, []).append(config)
    for tile, configs in by_tile.items():
        console.line(f"  tile {tile:>3}: {len(configs)} configs: {_ranges(configs)}")


def _ranges(numbers: list[int]) -> str:
    """Ascending numbers with runs drawn together: ``0-3, 8, 10-11``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
