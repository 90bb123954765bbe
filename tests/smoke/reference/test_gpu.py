"""The reference gives on a GPU what it gives on the CPU."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

torch = pytest.importorskip("torch")

from situ_release.smoke.metrics import Tolerance, compare  # noqa: E402
from situ_release.smoke.problem import Problem, make_experts, make_problem  # noqa: E402
from situ_release.smoke.reference import e8m0, layout, mxfp4, mxfp8  # noqa: E402
from situ_release.smoke.reference.moe import moe  # noqa: E402
from tests.smoke.small import small_contract  # noqa: E402

pytestmark = pytest.mark.gpu


def on_gpu(part: object) -> object:
    """A dataclass of tensors, moved."""
    moved = {
        field.name: value.cuda()
        for field in fields(part)  # type: ignore[arg-type]
        if isinstance(value := getattr(part, field.name), torch.Tensor)
    }
    return replace(part, **moved)  # type: ignore[type-var]


def test_every_byte_of_the_formats() -> None:
    every = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    scales = e8m0.decode(every.cuda()).cpu()
    assert torch.equal(scales[:255], e8m0.decode(every)[:255])
    assert scales[255].isnan()
    assert torch.equal(mxfp4.decode_elements(every.cuda()).cpu(), mxfp4.decode_elements(every))
    values = torch.randn(512, 128).ldexp(torch.randint(-120, 120, (512, 1)))
    for ours, theirs in zip(mxfp8.quantize(values.cuda()), mxfp8.quantize(values), strict=True):
        assert torch.equal(ours.cpu().view(torch.uint8), theirs.view(torch.uint8))


def test_layouts() -> None:
    experts = make_experts(small_contract("w4a16"), 1, "cpu")
    for prepare, parts in (
        (layout.prepare_w13, (experts.w13, experts.w13_scales)),
        (layout.prepare_w2, (experts.w2, experts.w2_scales)),
    ):
        expected = prepare(*parts)
        actual = prepare(*(part.cuda() for part in parts))
        for ours, theirs in zip(actual, expected, strict=True):
            assert torch.equal(ours.cpu().view(torch.uint8), theirs.view(torch.uint8))


@pytest.mark.parametrize("precision", ["w4a16", "w4a8"])
def test_the_layer(precision: str) -> None:
    contract = small_contract(precision)
    problem = make_problem(contract, make_experts(contract, 1, "cpu"), 64, 1)
    moved = Problem(*(on_gpu(getattr(problem, field.name)) for field in fields(problem)))  # type: ignore[arg-type]
    expected = moe(problem.tokens, problem.routing, problem.experts)
    actual = moe(moved.tokens, moved.routing, moved.experts).cpu()
    bounds = Tolerance(0.999999, 2e-3, 5e-3, 2**-5, 0)
    assert compare(actual, expected, bounds).broken(bounds) == []
