"""The reference against the pure-Python functions of the real flashinfer-python, one by one.

The package cannot be imported without a GPU, so single functions are taken out of its files.
"""

from __future__ import annotations

import ast
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import fetch

torch = pytest.importorskip("torch")

from situ_release.smoke.reference import e8m0, layout, mxfp4, mxfp8  # noqa: E402

pytestmark = pytest.mark.network

VERSION = "0.6.13"
SHA256 = "239e6ddc3cbbaf0bee251861a8c7c69438b1171830d69ddfa133ddea4494850d"
EPILOGUE_TILE_M = 128


@pytest.fixture(scope="module")
def wheel() -> Path:
    return fetch(f"flashinfer-python=={VERSION}", SHA256, "any")


def functions(wheel: Path, member: str, **namespace: Any) -> dict[str, Any]:
    """Every top-level function and literal of a module, without its imports and decorators."""
    with zipfile.ZipFile(wheel) as archive:
        tree = ast.parse(archive.read(member))
    kept: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []
            node.returns = None
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
            node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
            node.args.kw_defaults = [ast.Constant(None) for _ in node.args.kw_defaults]
            kept.append(node)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.List):
            kept.append(node)
    module = ast.fix_missing_locations(ast.Module(body=kept, type_ignores=[]))
    found: dict[str, Any] = {"torch": torch, **namespace}
    exec(compile(module, member, "exec"), found)
    return found


@pytest.fixture(scope="module")
def utils(wheel: Path) -> dict[str, Any]:
    return functions(wheel, "flashinfer/utils.py")


@pytest.fixture(scope="module")
def core(wheel: Path, utils: dict[str, Any]) -> dict[str, Any]:
    names = ("get_shuffle_matrix_a_row_indices", "get_shuffle_matrix_sf_a_row_indices")
    return functions(wheel, "flashinfer/fused_moe/core.py", **{name: utils[name] for name in names})


@pytest.mark.parametrize("rows", [128, 768, 3584, 6144])
def test_shuffle(utils: dict[str, Any], rows: int) -> None:
    matrix = torch.empty(rows, 4, dtype=torch.uint8)
    for name in ("get_shuffle_matrix_a_row_indices", "get_shuffle_matrix_sf_a_row_indices"):
        theirs = utils[name](matrix, EPILOGUE_TILE_M, *((32,) if "_sf_" in name else ()))
        assert torch.equal(layout.shuffled_rows(rows), theirs)


@pytest.mark.parametrize("inner", [128, 384, 3072])
def test_w13_and_w2_permutations(core: dict[str, Any], inner: int) -> None:
    matrix = torch.empty(2 * inner, 4, dtype=torch.uint8)
    # Theirs alternates the halves of [up | gate]; ours starts from a checkpoint's [gate | up].
    theirs = core["_maybe_get_cached_w3_w1_permute_indices"](
        {}, matrix, EPILOGUE_TILE_M, None, True
    )
    swapped = torch.cat((torch.arange(inner, 2 * inner), torch.arange(inner)))
    rows = 2 * inner
    assert torch.equal(layout.gated_rows(inner)[layout.shuffled_rows(rows)], swapped[theirs])
    theirs = core["get_w2_permute_indices_with_cache"]({}, matrix, EPILOGUE_TILE_M, 32)
    assert torch.equal(layout.shuffled_rows(rows), theirs)


def test_scale_interleave(wheel: Path) -> None:
    member = "flashinfer/quantization/quantization_cute_dsl_utils.py"
    offset = functions(wheel, member, Int32=int)["compute_sf_index_swizzled_128x4_gpu"]
    rows, blocks = 384, 12
    scales = torch.randint(0, 256, (rows, blocks), dtype=torch.uint8)
    expected = torch.empty(rows * blocks, dtype=torch.uint8)
    for row in range(rows):
        for block in range(blocks):
            expected[offset(row, block, blocks)] = scales[row, block]
    assert torch.equal(layout.interleave_scales(scales), expected)


def test_every_byte_of_the_formats(wheel: Path) -> None:
    theirs = functions(wheel, "flashinfer/trace/templates/moe.py")
    every = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    assert torch.equal(mxfp4.decode_elements(every), theirs["_unpack_fp4_e2m1"](every))
    # 255 is NaN by the standard and infinity there.
    assert torch.equal(e8m0.decode(every[:255]), theirs["_ue8m0_to_float32"](every[:255]))
    packed = torch.randint(0, 256, (8, 64), dtype=torch.uint8)
    scales = torch.randint(90, 160, (8, 4), dtype=torch.uint8)
    expected = theirs["_dequantize_fp4_tensor"](packed, scales, True)
    assert torch.equal(mxfp4.dequantize(packed, scales), expected)
    elements, scales = mxfp8.quantize(torch.randn(8, 128))
    expected = theirs["_dequantize_fp4_hidden_states"](elements, scales, True)
    assert torch.equal(mxfp8.dequantize(elements, scales), expected)
