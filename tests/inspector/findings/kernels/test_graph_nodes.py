"""The nodes of the last graph that a kernel computes."""

from msgspec.structs import replace

from ctrace.inspector.facts.kernel_facts import OutputCode
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.kernels.kernel_view import graph_nodes
from ctrace.inspector.runs.load import load_log
from tests.support.places import DATA

FUSED = load_log(DATA / "fused.log")
LIBRARY, GENERATED = FUSED.kernels
CODE = f"""\
# Graph fragment:
#   %arg0_1 : Tensor "f32[2]" = PlaceHolder[target=arg0_1]
#   %relu : Tensor "f32[2]" = call_function[target=torch.ops.aten.relu.default](args = (%mm,), kwargs = {{}})
#   %amax : [num_users=1] = call_function[target=torch.ops.aten.amax.default](args = (%add,), kwargs = {{}})
#   return %amax
{GENERATED.name} = async_compile.cpp_pybinding(['float*'], r'''
''')
# Graph fragment:
#   %sub : Tensor "f32[2]" = call_function[target=torch.ops.aten.sub.Tensor](args = (%add,), kwargs = {{}})
other_kernel = async_compile.cpp_pybinding(['float*'], r'''
''')
"""


def with_code(text: str) -> Session:
    return replace(FUSED, code=(OutputCode(GENERATED.graph, GENERATED.stage, text),))


def test_torch_names_the_nodes_of_a_generated_kernel():
    nodes = graph_nodes(with_code(CODE), GENERATED)
    assert nodes is not None
    assert (nodes.stage, nodes.names, nodes.is_exact) == ("post_grad", ("relu", "amax"), True)


def test_nodes_of_a_library_kernel_have_its_line_and_op():
    nodes = graph_nodes(with_code(CODE), LIBRARY)
    assert nodes is not None
    assert (nodes.names, nodes.is_exact) == (("mm",), False)


def test_without_the_code_nodes_have_the_line_and_op():
    nodes = graph_nodes(FUSED, GENERATED)
    assert nodes is not None
    assert (nodes.names, nodes.is_exact) == (("relu", "add", "amax", "sub"), False)


def test_a_kernel_with_several_calls_also_has_nodes_of_the_same_ops():
    nodes = graph_nodes(with_code(CODE), replace(GENERATED, calls=2))
    assert nodes is not None
    assert (nodes.names, nodes.is_exact) == (("relu", "amax"), False)


def test_a_node_that_torch_names_for_another_kernel_is_not_matched():
    text = CODE.replace("%amax", "%exp").replace("%sub :", "%amax :")
    nodes = graph_nodes(with_code(text), replace(GENERATED, calls=2))
    assert nodes is not None
    assert nodes.names == ("relu",)


def test_no_graph():
    assert graph_nodes(FUSED, replace(GENERATED, graph="9/9")) is None
