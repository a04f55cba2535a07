"""A kernel taken out of a run: its region, its sizes, its op."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from ctrace.inspector.facts.kernel_facts import Kernel, Pointer, Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.workshop.eject_kernel import EjectedPackage, op_name, package_of
from ctrace.inspector.features.workshop.free_sizes import generalized
from ctrace.inspector.features.workshop.kernel_region import FUNCTIONS, definition_of
from ctrace.inspector.features.workshop.size_expressions import RefusalError
from tests.support.ejecting import GRAPH, SOURCE, session


def package_for(**changes: Any) -> EjectedPackage:
    found = session(**changes)
    return package_of(found, found.kernels[0])


@pytest.mark.parametrize(
    ("kernel", "stage", "name"),
    [
        ("triton_poi_fused_gelu_1", Stage.FORWARD, "gelu_1"),
        ("triton_per_fused__softmax_0", Stage.INFERENCE, "softmax_0"),
        ("triton_red_fused_sum_12", Stage.BACKWARD, "sum_12_backward"),
        ("triton_poi_fused_0", Stage.FORWARD, "kernel_0"),
        ("cpp_fused_add_0", Stage.FORWARD, "add_0"),
        (f"triton_poi_fused_{'add_' * 40}7", Stage.FORWARD, f"{('add_' * 40)[:58].rstrip('_')}_7"),
    ],
)
def test_the_op_has_the_name_of_what_was_fused(kernel: str, stage: Stage, name: str) -> None:
    assert op_name(kernel, stage) == name
    assert name.isidentifier()


def test_the_region_goes_from_what_is_read_to_what_is_stored() -> None:
    found = session()
    package = package_of(found, found.kernels[0])
    assert [each.name for each in package.region.inputs] == ["mm"]
    assert [each.name for each in package.region.outputs] == ["mul_1"]
    assert [each.target for each in package.region.steps] == ["aten.mul.Tensor", "aten.exp.default", "aten.mul.Tensor"]


def test_a_fixed_leading_size_becomes_free() -> None:
    found = session()
    package = package_of(found, found.kernels[0])
    assert [(each.name, each.source, each.hint) for each in package.sizes] == [("n", "mm.shape[0]", 32)]
    assert package.parts[0].arguments == ("mm", "mul_1", "512 * n")
    assert package.text(package.region.inputs[0].shape[0]) == "n"


def test_a_size_that_a_stride_depends_on_stays_fixed() -> None:
    found = session(stride=("1", "32"))
    package = package_of(found, found.kernels[0])
    assert package.sizes == ()
    assert package.parts[0].arguments == ("mm", "mul_1", "16384")


def test_the_definition_and_the_pattern_have_the_same_steps() -> None:
    found = session()
    package = package_of(found, found.kernels[0])
    assert [line.text for line in package.definition.lines] == [
        "mul = aten.mul.Tensor(mm, 0.5)",
        "exp = aten.exp.default(mul)",
        "mul_1 = aten.mul.Tensor(exp, mm)",
    ]
    assert package.definition.pattern[0] == "Step('mul', 'aten.mul.Tensor', (V('mm'), 0.5, ), {})"
    assert package.definition.flops == ("n * 512",) * 3


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"language": "external"}, "library"),
        ({"language": "halide"}, "halide kernel"),
        ({"user": True}, "you wrote it"),
        ({"calls": ()}, "arguments of its call"),
        ({"workspaces": 1}, "scratch memory"),
        (
            {"graph": GRAPH.replace("aten.exp.default(mul)", "prims.inductor_random.default([32, 512], mul, 'rand')")},
            "random",
        ),
        ({"graph": GRAPH.replace("aten.exp.default(mul)", "aten.exp_.default(mm)")}, "changes its input"),
        ({"graph": GRAPH.replace("(exp, mm)", "(exp, mul)").replace("exp.d", "exp_.d")}, "changes its input"),
        ({"graph": GRAPH.replace("(exp, mm)", "(exp, a)")}, "depend on a"),
        ({"graph": ""}, "last graph"),
        ({"node": ""}, "part of a reduction"),
        ({"node": "b"}, "copies b into a part of another value"),
    ],
)
def test_what_cannot_be_ejected_has_a_reason(changes: Mapping[str, Any], why: str) -> None:
    with pytest.raises(RefusalError, match=why) as refused:
        package_for(**changes)
    assert refused.value.instead


def test_an_op_in_place_of_a_value_of_the_region_is_the_op_that_inductor_made_it_of() -> None:
    package = package_for(graph=GRAPH.replace("aten.exp.default(mul)", "aten.exp_.default(mul)"))
    assert [each.target for each in package.region.steps] == ["aten.mul.Tensor", "aten.exp.default", "aten.mul.Tensor"]
    assert "exp = aten.exp.default(mul)" in [line.text for line in package.definition.lines]


def test_a_kernel_that_reads_what_depends_on_its_result_is_refused() -> None:
    """As a C++ kernel that writes both parts of a concatenation and then reads the whole."""
    found = session()
    (call,) = found.kernel_calls
    read, written = (
        structs.replace(each, node=node) for each, node in zip(call.buffers, ("mul_1", "mul"), strict=True)
    )
    with pytest.raises(RefusalError, match="reads mul_1, which depends on a value that it stores"):
        package_for(calls=(structs.replace(call, buffers=(read, written)),))


_NORMED = """class GraphModule(torch.nn.Module):
    def forward(self, a: "f32[32, 64][64, 1]cuda:0", b: "f32[64, 512][512, 1]cuda:0"):
        mm: "f32[32, 512][512, 1]cuda:0" = torch.ops.aten.mm.default(a, b);  a = b = None
        var_mean = torch.ops.aten.var_mean.correction(mm, [1], correction = 0, keepdim = True)
        getitem: "f32[32, 1][1, 32]cuda:0" = var_mean[0]
        getitem_1: "f32[32, 1][1, 32]cuda:0" = var_mean[1];  var_mean = None
        sub: "f32[32, 512][512, 1]cuda:0" = torch.ops.aten.sub.Tensor(mm, getitem_1)
        mul_1: "f32[32, 512][512, 1]cuda:0" = torch.ops.aten.mul.Tensor(sub, getitem)
        return (mul_1,)
"""


def test_a_variance_around_a_mean_of_an_earlier_kernel_is_refused() -> None:
    """As in a C++ kernel of GPT-2: with another mean, its variance is not that of the definition."""
    found = session()
    (call,) = found.kernel_calls
    assert package_for(graph=_NORMED).region.inputs[0].node == "mm"
    mean = structs.replace(call.buffers[0], name="buf2", node="getitem_1", shape=("32", "1"), stride=("1", "32"))
    pointers = (*call.pointers, Pointer("in_ptr1", "buf2", ""))
    changed = structs.replace(call, buffers=(*call.buffers, mean), pointers=pointers)
    source = (
        found.kernels[0]
        .source.replace("    tmp1 =", "    tmp9 = tl.load(in_ptr1 + (x0 // 512), None)\n    tmp1 =")
        .replace("(in_ptr0, out_ptr0", "(in_ptr0, in_ptr1, out_ptr0")
    )
    kernel = structs.replace(found.kernels[0], source=source)
    with pytest.raises(RefusalError, match=r"one result of aten\.var_mean\.correction from another one, getitem_1"):
        package_of(structs.replace(session(graph=_NORMED), kernels=(kernel,), kernel_calls=(changed,)), kernel)


_VIEWED = """class GraphModule(torch.nn.Module):
    def forward(self, a: "f32[32, 64][64, 1]cuda:0", b: "f32[64, 512][512, 1]cuda:0"):
        mm: "f32[32, 512][512, 1]cuda:0" = torch.ops.aten.mm.default(a, b);  a = b = None
        mul: "f32[32, 512][512, 1]cuda:0" = torch.ops.aten.mul.Tensor(mm, 0.5)
        reshape: "f32[16384][1]cuda:0" = torch.ops.aten.reshape.default(FIRST, [16384])
        view: "f32[64, 256][256, 1]cuda:0" = torch.ops.aten.view.default(reshape, [64, 256])
        exp: "f32[64, 256][256, 1]cuda:0" = torch.ops.aten.exp_.default(view)
        view_1: "f32[32, 512][512, 1]cuda:0" = torch.ops.aten.view.default(exp, [32, 512])
        mul_1: "f32[32, 512][512, 1]cuda:0" = torch.ops.aten.mul.Tensor(view_1, SECOND)
        return (mul_1,)
"""


def test_an_op_in_place_of_a_view_changes_what_the_view_is_of() -> None:
    fresh = package_for(graph=_VIEWED.replace("FIRST", "mul").replace("SECOND", "2.0"))
    assert "exp = aten.exp.default(view)" in [line.text for line in fresh.definition.lines]
    for first, second in (("mm", "2.0"), ("mul", "mul"), ("mul", "reshape")):  # an argument; its base or a view, used
        with pytest.raises(RefusalError, match="changes its input"):
            package_for(graph=_VIEWED.replace("FIRST", first).replace("SECOND", second))


def test_an_op_of_prims_has_an_aten_op_as_its_definition() -> None:
    """Where an element comes from depends on the size, which so stays fixed."""
    graph = GRAPH.replace("aten.exp.default(mul)", "prims.rev.default(mul, [1])")
    package = package_for(graph=graph)
    assert package.sizes == ()
    assert "exp = aten.flip.default(mul, [1])" in [line.text for line in package.definition.lines]
    assert package.definition.pattern[1].startswith("Step('exp', 'prims.rev.default', ")


def test_an_op_without_a_derivative_has_a_function_as_its_definition() -> None:
    graph = GRAPH.replace("aten.exp.default(mul)", "aten.copy.default(mul, mm)").replace("exp", "copied")
    package = package_for(graph=graph)
    assert package.definition.functions == ("copied",)
    assert "copied_ = copied(mul, mm)" in [line.text for line in package.definition.lines]


@pytest.mark.thorough
def test_the_function_is_the_op() -> None:
    known: dict[str, Any] = {}
    exec(FUNCTIONS["copied"], known)
    torch = pytest.importorskip("torch")
    y = torch.ones(3, dtype=torch.float64, requires_grad=True)
    result = known["copied"](torch.zeros(2, 3), y)
    assert (result.shape, result.dtype, result.requires_grad) == ((2, 3), torch.float32, True)


def test_strides_are_written_as_in_the_graph() -> None:
    """Inductor multiplies out what the graph has as a product; torch cannot divide the sums."""
    package = package_for(graph=GRAPH.replace("[512, 1]cuda", "[2*(255 + 1), 1]cuda"))
    assert package.region.inputs[0].stride == ("2*(255 + 1)", "1")
    other = package_for(graph=GRAPH.replace("[512, 1]cuda", "[2*255, 1]cuda"))
    assert other.region.inputs[0].stride == ("512", "1")


def test_text_of_the_log_cannot_become_code_elsewhere() -> None:
    """An argument that is not a literal, a node or a size is refused, whatever it says."""
    found = session(graph=GRAPH.replace("mm, 0.5", "mm, __import__"))
    with pytest.raises(RefusalError, match="__import__"):
        package_of(found, found.kernels[0])


def test_generalizing_leaves_dynamic_sizes_alone() -> None:
    found = session()
    package = package_of(found, found.kernels[0])
    assert generalized(package.region, package.parts[0].call, SOURCE) == (package.region, package.parts[0].call)
    assert definition_of(package.region, package.symbols, "mm.device") == package.definition


def test_kernels_of_two_graphs_have_two_names() -> None:
    found = session()
    first, second = (structs.replace(found.kernels[0], graph=graph) for graph in ("0/0", "0/1"))
    calls = tuple(structs.replace(found.kernel_calls[0], graph=graph) for graph in ("0/0", "0/1"))
    compilations = tuple(structs.replace(found.compilations[0], id=graph) for graph in ("0/0", "0/1"))
    printed = dict.fromkeys(("0/0", "0/1"), found.printed["0/0"])
    both = structs.replace(
        found, kernels=(first, second), kernel_calls=calls, compilations=compilations, printed=printed
    )
    assert [package_of(both, each).name for each in both.kernels] == ["exp_mul_0", "exp_mul_0_graph_0_1"]


def test_the_session_may_be_empty() -> None:
    kernel = Kernel("0/0", Stage.INFERENCE, "triton_poi_fused_0", "triton")
    with pytest.raises(RefusalError):
        package_of(Session(), kernel)
