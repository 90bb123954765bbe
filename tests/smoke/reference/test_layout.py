"""The stored layout against its definition, one element at a time."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from situ_release.smoke.reference import layout  # noqa: E402


def numbered(*shape: int) -> torch.Tensor:
    """Random bytes, so that every element tells where it came from well enough."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("rows", [32, 128, 768, 3584, 6144])
def test_shuffle_is_its_formula_and_a_permutation(rows: int) -> None:
    order = layout.shuffled_rows(rows).tolist()
    assert order == [32 * (p // 32) + 4 * (p % 8) + (p % 32) // 8 for p in range(rows)]
    assert sorted(order) == list(range(rows))
    for source in range(rows):
        stored = 32 * (source // 32) + 8 * (source % 4) + (source % 32) // 4
        assert order[stored] == source


def test_gate_and_up_alternate_up_first() -> None:
    assert layout.gated_rows(4).tolist() == [4, 0, 5, 1, 6, 2, 7, 3]


@pytest.mark.parametrize("shape", [(128, 4), (256, 12), (384, 112), (130, 5), (1, 1)])
def test_scale_interleave_is_its_formula(shape: tuple[int, int]) -> None:
    rows, blocks = shape
    scales = numbered(rows, blocks)
    padded_rows, padded_blocks = -(-rows // 128) * 128, -(-blocks // 4) * 4
    expected = torch.zeros(padded_rows * padded_blocks, dtype=torch.uint8)
    for r in range(rows):
        for c in range(blocks):
            tile = (r // 128) * (padded_blocks // 4) + c // 4
            offset = tile * 512 + (r % 32) * 16 + ((r % 128) // 32) * 4 + c % 4
            expected[offset] = scales[r, c]
    assert torch.equal(layout.interleave_scales(scales), expected)
    batch = torch.stack((scales, scales.flip(0)))
    assert torch.equal(layout.interleave_scales(batch)[0], expected)


def test_w13_is_prepared_row_by_row() -> None:
    experts, inner, hidden = 3, 128, 256
    weights, scales = numbered(experts, 2 * inner, hidden // 2), numbered(experts, 2 * inner, 8)
    stored, stored_scales = layout.prepare_w13(weights, scales)
    assert stored.dtype == torch.uint8
    assert stored_scales.dtype == torch.float8_e4m3fn
    assert stored_scales.shape == scales.shape
    expected = torch.empty_like(scales)
    for p in range(2 * inner):
        i = 32 * (p // 32) + 4 * (p % 8) + (p % 32) // 8
        source = inner + i // 2 if i % 2 == 0 else i // 2  # even: up, odd: gate
        assert torch.equal(stored[:, p], weights[:, source])
        expected[:, p] = scales[:, source]
    interleaved = stored_scales.view(torch.uint8).flatten(1)
    assert torch.equal(interleaved, layout.interleave_scales(expected))


def test_w2_is_only_shuffled() -> None:
    weights, scales = numbered(2, 256, 64), numbered(2, 256, 4)
    stored, stored_scales = layout.prepare_w2(weights, scales)
    order = layout.shuffled_rows(256)
    assert torch.equal(stored, weights[:, order])
    expected = layout.interleave_scales(scales[:, order])
    assert torch.equal(stored_scales.view(torch.uint8).flatten(1), expected)
