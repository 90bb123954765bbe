"""The built runner on a real GPU against the plain reference: a table, exit status 1 on any fault.

`python -m tests.conformance.gpu_check BUILD` from the top of the project; needs torch for CUDA 13
and apache-tvm-ffi. BUILD is what `build_conformance` made.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
import threading
import time
from pathlib import Path

import torch
import tvm_ffi

from tests.conformance import plain_moe

HIDDEN, EXPERTS, TOP_K = 3584, 896, 16
LADDER = {"w4a16": (8, 16, 32, 64), "w4a8": (8, 16, 32, 64, 128, 256)}
CONFIGS = range(4)
COSINE, L2 = 0.9999, 1e-2

faults = []
began = time.monotonic()


def say(text):
    print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)


def expect(condition, what):
    if not condition:
        faults.append(what)
        say(f"FAULT: {what}")


class Runner:
    """The runner with its pool; `requests` are the cubins it has asked for."""

    def __init__(self, build):
        (path,) = build.glob("*.so")
        library = ctypes.CDLL(str(path))
        self.module = tvm_ffi.load_module(str(path))
        self.requests = []
        set_current = library.FlashInferSetCurrentCubin
        set_current.argtypes = (ctypes.c_char_p, ctypes.c_int)

        def serve(name, sha256):
            data = (build / "pool" / name.decode()).read_bytes()
            expect(hashlib.sha256(data).hexdigest() == sha256.decode(), f"digest of {name}")
            self.requests.append(name.decode())
            set_current(data, len(data))

        self.callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)(serve)
        library.FlashInferSetCubinCallback(self.callback)

    def moe(self, problem, output, tactic=(-1, -1), **options):
        arguments = plain_moe.arguments(problem, output, tactic, **options)
        return list(self.module.trtllm_fp4_block_scale_moe_private(*arguments))

    def configs(self, *problem):
        arguments = plain_moe.config_arguments(*problem)
        answer = self.module.trtllm_get_valid_moe_configs_private(*arguments)
        return [(int(tile), int(config)) for tile, config in answer]


def nan_output(problem):
    shape = problem.tokens.shape
    return torch.full(shape, float("nan"), dtype=torch.bfloat16, device="cuda")


def check(name, found, wanted, seconds=None):
    cosine, l2, worst = plain_moe.compare(found, wanted)
    good = cosine >= COSINE and l2 <= L2 and bool(found.isfinite().all())
    timing = "" if seconds is None else f"{seconds * 1e3:9.3f} ms"
    say(f"{name:58} cos {cosine:.7f}  l2 {l2:.1e}  worst {worst:.1e}  {timing}")
    expect(good, f"{name}: cosine {cosine}, l2 {l2}")


def timed(call):
    """Seconds of one call of `call`, without its first."""
    call()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(3):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 3e3


def small_cases(runner):
    """Every tactic; the depth of FC2 is no multiple of the larger K tile; slots of other ranks."""
    for precision, ladder in LADDER.items():
        for tokens, offset, local in ((9, 0, 20), (300, 5, 10)):
            problem = plain_moe.make_problem(
                precision,
                tokens,
                1024,
                384,
                20,
                4,
                device="cuda",
                seed=tokens,
                offset=offset,
                local=local,
            )
            outputs, is_local = plain_moe.expert_outputs(problem)
            wanted = plain_moe.finalize(outputs, is_local, problem.weights)
            asked = set()
            for tile in ladder:
                for config in CONFIGS:
                    output = nan_output(problem)
                    answer = runner.moe(problem, output, (tile, config))
                    expect(answer == [None], f"answer {answer}")
                    cosine, l2, _ = plain_moe.compare(output, wanted)
                    if cosine < COSINE or l2 > L2 or not output.isfinite().all():
                        expect(
                            False, f"{precision} {tokens} tokens ({tile}, {config}): {cosine} {l2}"
                        )
                asked |= set(runner.requests)
            check(
                f"{precision} small, {tokens} tokens, all {4 * len(ladder)} tactics", output, wanted
            )
        expected = len(ladder) * 4
        count = sum("MxE4m3" in name for name in asked)
        count = count if precision == "w4a8" else len(asked) - count
        expect(count == expected, f"{precision}: {count} cubins asked for, not {expected}")


def modes(runner):
    """Packed routing, deferred finalize, refused tactics, an empty batch."""
    for precision in LADDER:
        problem = plain_moe.make_problem(precision, 33, 1024, 384, 20, 4, device="cuda", seed=7)
        outputs, is_local = plain_moe.expert_outputs(problem)
        wanted = plain_moe.finalize(outputs, is_local, problem.weights)
        output = nan_output(problem)
        runner.moe(problem, output, packed=True)
        check(f"{precision} packed routing", output, wanted)
        untouched = nan_output(problem)
        rows, middle, index = runner.moe(problem, untouched, finalize=False)
        index = torch.from_dlpack(index).reshape(problem.ids.shape)
        rows = torch.from_dlpack(rows)
        expect(
            middle is None and bool(untouched.isnan().all()), "deferred finalize wrote the output"
        )
        check(f"{precision} deferred finalize", rows[index.long()], outputs)
        mutant = plain_moe.make_problem(precision, 33, 1024, 384, 20, 4, device="cuda", seed=7)
        mutant.beta, mutant.linear_beta = mutant.linear_beta, mutant.beta
        runner.moe(mutant, output)
        cosine = plain_moe.compare(output, wanted)[0]
        expect(cosine < COSINE, f"{precision}: swapped betas go unnoticed, cosine {cosine}")
        say(f"{precision} swapped betas: cosine {cosine:.5f}")
        output.fill_(float("nan"))
        thread = threading.Thread(target=runner.moe, args=(problem, output))
        thread.start()
        thread.join()
        torch.cuda.synchronize()
        check(f"{precision} from a thread without a context", output, wanted)
        try:
            runner.moe(problem, output, (8, 99))
        except ValueError as error:
            say(f"refused: {str(error)[:80]}")
        else:
            expect(False, "tactic (8, 99) was not refused")


def full_size(runner, name, inner, local, offset, token_counts):
    """One K3 shard: every precision and token count, the default and every offered tactic."""
    weights = plain_moe.make_weights(local, HIDDEN, inner, "cuda", 1)
    for precision in LADDER:
        problem = plain_moe.make_problem(
            precision,
            1,
            HIDDEN,
            inner,
            EXPERTS,
            TOP_K,
            device="cuda",
            offset=offset,
            local=local,
            weights=weights,
        )
        for tokens in token_counts:
            problem.tokens = plain_moe.make_tokens(tokens, HIDDEN, "cuda", tokens)
            problem.token_scales = None
            if precision == "w4a8":
                quantized = plain_moe.quantize_mxfp8(problem.tokens.float())
                problem.tokens, problem.token_scales = quantized
            routing = plain_moe.make_routing(tokens, EXPERTS, TOP_K, "cuda", tokens)
            problem.ids, problem.weights = routing
            started = time.monotonic()
            outputs, is_local = plain_moe.expert_outputs(problem)
            wanted = plain_moe.finalize(outputs, is_local, problem.weights)
            del outputs
            torch.cuda.synchronize()
            reference = time.monotonic() - started
            output = nan_output(problem)
            seconds = timed(lambda p=problem, o=output: runner.moe(p, o))
            label = f"{name} {precision} {tokens} tokens (reference {reference:.1f} s)"
            check(f"{label} default", output, wanted, seconds)
            default = output.clone()
            for tile, config in runner.configs(
                precision, tokens, HIDDEN, inner, EXPERTS, TOP_K, local
            ):
                if config not in (0, 3):
                    continue
                output.fill_(float("nan"))
                seconds = timed(lambda p=problem, o=output, t=(tile, config): runner.moe(p, o, t))
                check(f"    ({tile}, {config})", output, wanted, seconds)
            output.fill_(float("nan"))
            runner.moe(problem, output)
            expect(torch.equal(output, default), f"{label}: not the same twice")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                runner.moe(problem, output)
            output.fill_(float("nan"))
            graph.replay()
            torch.cuda.synchronize()
            expect(torch.equal(output, default), f"{label}: graph replay differs")
    say(f"{name}: peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


def main(build, small=False):
    say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, tvm_ffi {tvm_ffi.__version__}")
    torch.backends.cuda.matmul.allow_tf32 = False
    runner = Runner(Path(build))
    say("runner opened")
    for precision, tokens in (("w4a16", 1), ("w4a16", 4096), ("w4a8", 128), ("w4a8", 4096)):
        configs = runner.configs(precision, tokens, HIDDEN, 384, EXPERTS, TOP_K, EXPERTS)
        say(f"configs {precision} {tokens} tokens: {configs}")
    small_cases(runner)
    modes(runner)
    if small:
        return 1 if faults else 0
    full_size(runner, "tp8", 384, EXPERTS, 0, (1, 128, 700, 4096))
    full_size(runner, "ep8", 3072, 112, 336, (1, 128, 4096))
    say(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], small="--small" in sys.argv))
