"""MXFP4, MXFP8 and E8M0 against ml_dtypes and torch: every byte value of each format."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")
np = pytest.importorskip("numpy")

from situ_release.smoke.reference import e8m0, mxfp4, mxfp8  # noqa: E402

ALL_BYTES = torch.arange(256, dtype=torch.int32).to(torch.uint8)


def as_numpy(dtype: str, data: torch.Tensor) -> np.ndarray:
    """The bytes read as an ml_dtypes type, widened to float32."""
    return data.numpy().view(getattr(ml_dtypes, dtype)).astype(np.float32)


def test_every_scale_byte() -> None:
    decoded = e8m0.decode(ALL_BYTES)
    exact = [math.ldexp(1.0, byte - 127) for byte in range(255)]
    assert decoded[:255].tolist() == exact
    assert decoded[255].isnan()
    assert np.array_equal(decoded.numpy(), as_numpy("float8_e8m0fnu", ALL_BYTES), equal_nan=True)
    assert torch.equal(decoded[:255], ALL_BYTES.view(torch.float8_e8m0fnu).float()[:255])


def test_every_byte_of_two_mxfp4_elements() -> None:
    decoded = mxfp4.decode_elements(ALL_BYTES[:, None])
    assert decoded.shape == (256, 2)
    low = as_numpy("float4_e2m1fn", (ALL_BYTES & 15))
    high = as_numpy("float4_e2m1fn", (ALL_BYTES >> 4))
    assert np.array_equal(decoded[:, 0].numpy(), low)
    assert np.array_equal(decoded[:, 1].numpy(), high)
    # -0 is a code of its own.
    assert decoded[0x88].signbit().tolist() == [True, True]


def test_every_mxfp8_byte() -> None:
    elements = ALL_BYTES.view(torch.float8_e4m3fn).reshape(8, 32)
    decoded = mxfp8.dequantize(elements, torch.full((8, 1), 130, dtype=torch.uint8))
    expected = as_numpy("float8_e4m3fn", ALL_BYTES).reshape(8, 32) * 8
    assert np.array_equal(decoded.numpy(), expected, equal_nan=True)


def test_a_scale_belongs_to_its_block_of_32() -> None:
    packed = torch.full((3, 64), 0x22, dtype=torch.uint8)  # every element is 1
    scales = torch.arange(120, 132, dtype=torch.uint8).reshape(3, 4)
    expected = e8m0.decode(scales).repeat_interleave(32, dim=1)
    assert torch.equal(mxfp4.dequantize(packed, scales), expected)


def test_rounding_to_nearest_even_at_every_midpoint() -> None:
    values = as_numpy("float8_e4m3fn", ALL_BYTES)
    finite = np.unique(values[np.isfinite(values)])
    middle = (finite[1:] + finite[:-1]) / 2
    probes = np.concatenate((finite, middle, np.nextafter(middle, 1e9), np.nextafter(middle, -1e9)))
    probes = probes[np.abs(probes) <= 448].astype(np.float32)
    # 448 in every block makes its scale 1, so what is left is the rounding.
    blocks = torch.from_numpy(np.resize(probes, (-(-len(probes) // 31), 31)))
    blocks = torch.cat((blocks, torch.full((len(blocks), 1), 448.0)), dim=1)
    elements, scales = mxfp8.quantize(blocks)
    assert set(scales.flatten().tolist()) == {127}
    expected = blocks.numpy().astype(ml_dtypes.float8_e4m3fn)
    assert np.array_equal(elements.view(torch.uint8).numpy(), expected.view(np.uint8))
    assert torch.equal(elements.view(torch.uint8), blocks.to(torch.float8_e4m3fn).view(torch.uint8))


def test_the_scale_is_the_smallest_that_fits() -> None:
    generator = torch.Generator().manual_seed(1)
    exponents = torch.randint(-100, 100, (4096, 1), generator=generator)
    blocks = torch.randn(4096, 32, generator=generator).ldexp(exponents)
    _, codes = mxfp8.quantize(blocks)
    amax = blocks.double().abs().amax(dim=1)
    scale = e8m0.decode(codes)[:, 0].double()
    assert (amax / scale <= 448).all()
    assert (amax / (scale / 2) > 448).all()


@pytest.mark.parametrize(
    ("amax", "code"),
    [
        (0.0, 0),
        (448.0, 127),
        (448.00003, 128),
        (224.0, 126),
        (2.0**-149, 0),
        (448.0 * 2.0**-127, 0),
        (3.0e38, 247),
    ],
)
def test_scales_at_the_edges(amax: float, code: int) -> None:
    block = torch.zeros(1, 32)
    block[0, 5] = amax
    elements, codes = mxfp8.quantize(block)
    assert codes.tolist() == [[code]]
    restored = mxfp8.dequantize(elements, codes)
    assert restored[0, 5].item() == pytest.approx(amax, rel=2**-4, abs=2.0**-130)


def test_nan_and_infinity_do_not_vanish() -> None:
    block = torch.ones(2, 32)
    block[0, 3] = math.nan
    block[1, 3] = math.inf
    restored = mxfp8.round_trip(block)
    assert restored[0].isnan().all()
    assert restored[1, 3] == math.inf
    assert mxfp8.quantize(block)[1].flatten().tolist() == [255, 254]


def test_quantizing_twice_changes_nothing() -> None:
    blocks = torch.randn(64, 128, generator=torch.Generator().manual_seed(2))
    once = mxfp8.round_trip(blocks)
    assert torch.equal(mxfp8.round_trip(once), once)
    assert (once - blocks).norm() / blocks.norm() < 0.04
