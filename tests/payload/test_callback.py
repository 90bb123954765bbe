"""Cubin requests: what they are answered, and where a failure comes out."""

from __future__ import annotations

import logging
import threading
from types import ModuleType
from typing import Any

import pytest

from tests.payload.assemble import CUBINS, MOE, Package, sha256
from tests.payload.fakes import FakeRunner, install

NAME, (ARCH, _, DATA) = next(iter(CUBINS.items()))
SHA256 = sha256(DATA)
PATH = f"/home/somebody/build/local_cubins/{NAME}"


@pytest.fixture
def runner() -> FakeRunner:
    return FakeRunner()


@pytest.fixture
def situ(package: Package, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = install(package, runner, monkeypatch)
    module.load_raw_module()
    return module


def ask(runner: FakeRunner, *requests: tuple[Any, Any]) -> Any:
    """An entry point that makes these cubin requests."""
    return lambda *args: [runner.ask(*request) for request in requests]


def in_thread(function: Any) -> Any:
    """The result of ``function`` called on another thread."""
    box: list[Any] = []

    def run() -> None:
        try:
            box.append(function())
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return box[0]


GOOD = (PATH, SHA256)
BAD = ("/x/Bmm_absent.cubin", SHA256)


@pytest.mark.parametrize("path", [PATH, NAME, f"./{NAME}"])
@pytest.mark.parametrize("digest", [SHA256, SHA256.upper()])
def test_a_cubin_is_found_by_its_file_name(
    situ: ModuleType, runner: FakeRunner, path: str, digest: str
) -> None:
    runner.behaviour = ask(runner, (path, digest))
    assert situ.trtllm_fp4_block_scale_moe_raw() == [DATA]
    assert situ.raise_last_callback_error() is None


def test_bytes_with_zeros_arrive_whole(situ: ModuleType, runner: FakeRunner) -> None:
    name, (_, _, data) = list(CUBINS.items())[1]
    assert b"\0" in data
    runner.behaviour = ask(runner, (name, sha256(data)))
    assert situ.trtllm_fp4_block_scale_moe_raw() == [data]


@pytest.mark.parametrize(
    ("path", "digest", "message"),
    [
        ("/x/Bmm_absent.cubin", SHA256, "Bmm_absent.cubin: the runner asks for a cubin that"),
        (PATH.removesuffix(".cubin"), SHA256, "does not have"),
        (PATH.lower(), SHA256, "does not have"),
        (PATH, "0" * 64, f"{NAME}: the runner was compiled for another cubin"),
        (PATH, "", r"expects SHA-256 \(none\)"),
        (PATH, None, r"expects SHA-256 \(none\)"),
        (None, SHA256, r"\(no name\): the runner asks"),
        (b"\xff\xfe.cubin", SHA256, r"\\xff\\xfe.cubin: the runner asks"),
    ],
)
def test_a_request_that_cannot_be_answered(
    situ: ModuleType, runner: FakeRunner, path: Any, digest: Any, message: str
) -> None:
    """It surfaces after the call, and an earlier cubin does not stay current."""
    runner.behaviour = ask(runner, GOOD, (path, digest))
    with pytest.raises(situ.BundleError, match=message) as caught:
        situ.trtllm_fp4_block_scale_moe_raw()
    assert isinstance(caught.value.__cause__, situ.BundleError)
    assert runner.current == [DATA, b""]


@pytest.mark.parametrize("damage", ["missing", "changed", "truncated", "folder"])
def test_the_file_is_hashed_each_time_it_is_read(
    situ: ModuleType, runner: FakeRunner, package: Package, damage: str
) -> None:
    """Verified when the runner was opened, damaged since, mended again."""
    file = package.folder / "cubins" / ARCH / NAME
    runner.behaviour = ask(runner, GOOD)
    assert situ.trtllm_fp4_block_scale_moe_raw() == [DATA]
    file.unlink()
    if damage == "changed":
        file.write_bytes(b"cubin 0ne")
    elif damage == "truncated":
        file.write_bytes(DATA[:-1])
    elif damage == "folder":
        file.mkdir()
    with pytest.raises(situ.BundleError, match=NAME):
        situ.trtllm_fp4_block_scale_moe_raw()
    assert runner.current[-1] == b""
    if damage == "folder":
        file.rmdir()
    file.write_bytes(DATA)
    assert situ.trtllm_fp4_block_scale_moe_raw() == [DATA]


def test_a_failure_does_not_stick(situ: ModuleType, runner: FakeRunner) -> None:
    runner.behaviour = ask(runner, BAD)
    with pytest.raises(situ.BundleError, match="Bmm_absent"):
        situ.trtllm_fp4_block_scale_moe_raw()
    runner.behaviour = ask(runner, GOOD)
    assert situ.trtllm_fp4_block_scale_moe_raw() == [DATA]
    assert situ.raise_last_callback_error() is None


def test_the_first_failure_of_a_call_is_the_cause(situ: ModuleType, runner: FakeRunner) -> None:
    runner.behaviour = ask(runner, BAD, GOOD, ("other.cubin", SHA256))
    with pytest.raises(situ.BundleError, match="Bmm_absent"):
        situ.trtllm_fp4_block_scale_moe_raw()


def test_when_the_runner_fails_as_well_both_are_kept(situ: ModuleType, runner: FakeRunner) -> None:
    native = RuntimeError("CUDA driver error: invalid image")

    def fail(*args: Any) -> None:
        runner.ask(*BAD)
        raise native

    runner.behaviour = fail
    with pytest.raises(situ.BundleError, match="Bmm_absent") as caught:
        situ.trtllm_fp4_block_scale_moe_raw()
    assert caught.value.__cause__ is native
    runner.behaviour = ask(runner, GOOD)
    assert situ.trtllm_fp4_block_scale_moe_raw() == [DATA]


def test_a_failure_of_the_runner_alone_passes_as_it_is(
    situ: ModuleType, runner: FakeRunner
) -> None:
    native = RuntimeError("MoE kernel requires SM 10.x")

    def fail(*args: Any) -> None:
        raise native

    runner.behaviour = fail
    with pytest.raises(RuntimeError) as caught:
        situ.trtllm_fp4_block_scale_moe_raw()
    assert caught.value is native


def test_an_interrupt_stays_an_interrupt(
    situ: ModuleType, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object) -> bytes:
        raise KeyboardInterrupt

    bundle = situ.loader._BUNDLE
    monkeypatch.setattr(bundle._callback, "_read", interrupt)
    runner.behaviour = ask(runner, GOOD)
    with pytest.raises(KeyboardInterrupt):
        situ.trtllm_fp4_block_scale_moe_raw()
    assert runner.current == [b""]


def test_a_failure_on_a_worker_thread_reaches_the_call(
    situ: ModuleType, runner: FakeRunner
) -> None:
    """State kept per thread alone would lose it: the published package does."""
    runner.behaviour = lambda *args: in_thread(lambda: runner.ask(*BAD))
    with pytest.raises(situ.BundleError, match="Bmm_absent"):
        situ.trtllm_fp4_block_scale_moe_raw()
    runner.behaviour = lambda *args: in_thread(lambda: runner.ask(*GOOD))
    assert situ.trtllm_fp4_block_scale_moe_raw() == DATA
    assert situ.raise_last_callback_error() is None


def test_calls_on_two_threads_keep_their_failures_apart(
    situ: ModuleType, runner: FakeRunner
) -> None:
    """The bad call runs from before the good one begins until after it has ended."""
    failed, may_end = threading.Event(), threading.Event()

    def behaviour(which: str) -> Any:
        if which == "good":
            return runner.ask(*GOOD)
        runner.ask(*BAD)
        failed.set()
        assert may_end.wait(10)
        return "ended"

    runner.behaviour = behaviour
    results: list[Any] = []
    thread = threading.Thread(
        target=lambda: results.append(_outcome(situ.trtllm_fp4_block_scale_moe_raw, "bad"))
    )
    thread.start()
    assert failed.wait(10)
    good = _outcome(situ.trtllm_fp4_block_scale_moe_raw, "good")
    may_end.set()
    thread.join()
    assert good == DATA
    assert isinstance(results[0], situ.BundleError)


def test_a_worker_that_could_be_anybodys_fails_every_call_in_progress(
    situ: ModuleType, runner: FakeRunner
) -> None:
    both_run, asked = threading.Barrier(3), threading.Event()

    def behaviour(*args: Any) -> str:
        both_run.wait(10)
        assert asked.wait(10)
        return "ended"

    runner.behaviour = behaviour
    results: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda: results.append(_outcome(situ.trtllm_fp4_block_scale_moe_raw))
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    both_run.wait(10)
    in_thread(lambda: runner.ask(*BAD))
    asked.set()
    for thread in threads:
        thread.join()
    assert [type(result) for result in results] == [situ.BundleError] * 2
    runner.behaviour = ask(runner, GOOD)
    assert situ.trtllm_fp4_block_scale_moe_raw() == [DATA]


def test_the_raw_module_leaves_its_failure_to_be_asked_for(
    situ: ModuleType, runner: FakeRunner
) -> None:
    runner.behaviour = ask(runner, BAD)
    module = situ.load_raw_module()
    getattr(module, MOE)()
    with pytest.raises(situ.BundleError, match="Bmm_absent"):
        situ.raise_last_callback_error()
    assert situ.raise_last_callback_error() is None
    getattr(module, MOE)()
    situ.loader.clear_callback_error()
    assert situ.raise_last_callback_error() is None


def test_a_waiting_failure_does_not_reach_a_later_call(
    situ: ModuleType, runner: FakeRunner
) -> None:
    runner.behaviour = ask(runner, BAD)
    getattr(situ.load_raw_module(), MOE)()
    runner.behaviour = ask(runner, GOOD)
    assert situ.trtllm_fp4_block_scale_moe_raw() == [DATA]


def test_a_waiting_failure_of_a_worker_goes_to_whoever_asks(
    situ: ModuleType, runner: FakeRunner
) -> None:
    in_thread(lambda: runner.ask(*BAD))
    with pytest.raises(situ.BundleError, match="Bmm_absent"):
        situ.raise_last_callback_error()
    assert situ.raise_last_callback_error() is None


def test_each_thread_gets_its_own_waiting_failure_first(
    situ: ModuleType, runner: FakeRunner
) -> None:
    def other() -> Any:
        runner.ask("of_the_other.cubin", SHA256)
        failed.set()
        assert asked.wait(10)
        return _outcome(situ.raise_last_callback_error)

    failed, asked = threading.Event(), threading.Event()
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(other()))
    runner.ask(*BAD)
    thread.start()
    assert failed.wait(10)
    with pytest.raises(situ.BundleError, match="Bmm_absent"):
        situ.raise_last_callback_error()
    asked.set()
    thread.join()
    assert "of_the_other.cubin" in str(results[0])
    assert situ.raise_last_callback_error() is None


def test_requests_are_logged_by_file_name(
    situ: ModuleType, runner: FakeRunner, caplog: pytest.LogCaptureFixture
) -> None:
    """The path compiled into the runner names its builder; the log does not."""
    runner.behaviour = ask(runner, GOOD)
    with caplog.at_level(logging.DEBUG, logger=situ.__name__):
        situ.trtllm_fp4_block_scale_moe_raw()
    assert [record.getMessage() for record in caplog.records] == [f"cubin {NAME}, 9 bytes"]


def test_two_bundles_in_one_process_keep_apart(
    situ: ModuleType, runner: FakeRunner, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.payload.assemble import assemble

    second = FakeRunner()
    other = install(assemble(tmp_path / "other"), second, monkeypatch)
    second.behaviour = lambda *args: _outcome(situ.trtllm_fp4_block_scale_moe_raw)
    runner.behaviour = ask(runner, BAD)
    inner = other.trtllm_fp4_block_scale_moe_raw()
    assert isinstance(inner, situ.BundleError)
    assert not isinstance(inner, other.BundleError)


def _outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return error
