"""Inductor's source of a kernel as plain Triton."""

import ast
import re

import pytest

from ctrace.inspector.features.workshop.size_expressions import RefusalError
from ctrace.inspector.features.workshop.triton_helpers import HELPERS, replaced
from ctrace.inspector.features.workshop.triton_source import TritonKernel, plain_triton

HEAD = """
import triton
import triton.language as tl

@triton_heuristics.{kind}(
    size_hints={{'x': 16384}},
    filename=__file__,
    triton_meta={{'signature': {{'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32', 'XBLOCK': 'constexpr'}}}},
    inductor_meta={{'grid_type': '{grid}', 'hash': object()}},
)
@triton.jit
def triton_poi_fused_0({parameters}, xnumel, XBLOCK : tl.constexpr):
"""
POINTWISE = """\
    xnumel = 16384
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = xindex
    tmp0 = tl.load({source} + (x0), None)
    tmp1 = tl.full([1], 0.5, tl.float32)
    tmp2 = tmp0 * tmp1
    tmp3 = triton_helpers.maximum(tmp2, libdevice.erf(tmp0))
    unused = tmp0 + 1
    tl.store({target} + (x0), tmp3, None)
"""


def kernel(
    body: str, parameters: str = "in_ptr0, out_ptr0", grid: str = "Grid1D", **pointers: tuple[str, str]
) -> TritonKernel:
    source = HEAD.format(kind="pointwise", grid=grid, parameters=parameters) + body
    return plain_triton(source, "triton_poi_fused_0", pointers or {"in_ptr0": ("x", ""), "out_ptr0": ("", "y")})


def text(found: TritonKernel) -> str:
    return "\n".join(line for _, line in found.body)


def test_sizes_are_arguments_and_every_access_has_its_mask() -> None:
    found = kernel(POINTWISE.format(source="in_ptr0", target="out_ptr0"))
    written = text(found)
    assert found.parameters == ("x_ptr", "y_ptr", "xnumel")
    assert "xnumel = 16384" not in written
    assert "xmask = xindex < xnumel" in written
    assert "x = tl.load(x_ptr + x0, xmask)" in written
    assert "tl.store(y_ptr + x0, y, xmask)" in written


def test_constants_and_helpers_are_plain_and_unused_values_are_gone() -> None:
    found = kernel(POINTWISE.format(source="in_ptr0", target="out_ptr0"))
    written = text(found)
    assert "x * 0.5" in written
    assert "y = maximum(product, tl.erf(x))" in written
    assert "unused" not in written
    assert found.helpers == ("maximum",)
    assert found.imports == ()


def test_a_pointer_for_an_input_and_an_output_becomes_two() -> None:
    found = kernel(POINTWISE.format(source="in_out_ptr0", target="in_out_ptr0"), "in_out_ptr0", in_out_ptr0=("x", "y"))
    assert found.parameters == ("x_ptr", "y_ptr", "xnumel")
    assert "tl.load(x_ptr" in text(found)
    assert "tl.store(y_ptr" in text(found)


def test_what_is_stored_first_is_read_from_the_output() -> None:
    body = """\
    xindex = tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tl.store(in_out_ptr0 + xindex, 1.0, xmask)
    tmp0 = tl.load(in_out_ptr0 + xindex, xmask)
    tl.store(in_out_ptr0 + xindex, tmp0, xmask)
"""
    found = kernel(body, "in_out_ptr0", in_out_ptr0=("x", "y"))
    assert found.parameters == ("y_ptr", "xnumel")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("    tl.atomic_add(out_ptr0 + tl.arange(0, XBLOCK), 1.0, None, sem='relaxed')", "atomics"),
        ("    tl.store(out_ptr0, tl.rand(0, tl.arange(0, XBLOCK)), None)", "random numbers"),
        ("    tl.store(out_ptr0, triton_helpers.bucketize_binary_search(1), None)", "bucketize_binary_search"),
        ("    tmp0 = in_ptr0 + 1\n    tl.store(out_ptr0, tmp0, None)", "more than loads and stores"),
    ],
)
def test_what_an_op_cannot_do_is_refused(line: str, why: str) -> None:
    with pytest.raises(RefusalError, match=why):
        kernel(line)


def test_a_grid_of_inductors_launcher_is_refused() -> None:
    with pytest.raises(RefusalError, match="CooperativeReductionGrid"):
        kernel(POINTWISE.format(source="in_ptr0", target="out_ptr0"), grid="CooperativeReductionGrid")


@pytest.mark.parametrize("source", ["def f(:", "", "x = 1"])
def test_damaged_source_is_refused(source: str) -> None:
    with pytest.raises(RefusalError):
        plain_triton(source, "k", {})


@pytest.mark.parametrize("name", sorted(HELPERS))
def test_a_helper_comes_with_all_that_it_calls(name: str) -> None:
    body = ast.parse(f"x = triton_helpers.{name}(a)").body
    helpers, _ = replaced(body)
    defined = set(re.findall(r"(?m)^def (\w+)", "\n".join(HELPERS[each] for each in helpers)))
    known = {each for text in HELPERS.values() for each in re.findall(r"(?m)^def (\w+)", text)}
    used = {node.id for each in helpers for node in ast.walk(ast.parse(HELPERS[each])) if isinstance(node, ast.Name)}
    assert used & known <= defined
    assert ast.unparse(body[0]).removeprefix("x = ").removesuffix("(a)") in defined


def test_a_size_is_cast_in_a_way_that_a_constant_has_too() -> None:
    """Triton makes a constant of an argument that is 1, and a constant has no method `to`."""
    body = POINTWISE.format(source="in_ptr0", target="out_ptr0")
    body = body.replace("tmp0 * tmp1", "tmp0 * (ks0*(triton_helpers.div_floor_integer(ks1, 2))).to(tl.float32)")
    found = text(kernel(body.replace("erf(tmp0)", "erf(tmp0.to(tl.float32))"), "in_ptr0, out_ptr0, ks0, ks1"))
    assert "tl.cast(ks0 * div_floor_integer(ks1, 2), tl.float32)" in found
    assert "x.to(tl.float32)" in found
