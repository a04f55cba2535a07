"""Kernels are compared without their names, hashes, paths and comments; numbers of built kernels count."""

from msgspec.structs import replace

from ctrace.inspector.facts.session import Graph, Scenario, Session
from ctrace.inspector.features.compare.changes import ChangeKind, What
from ctrace.inspector.features.compare.compare_runs import compare
from ctrace.inspector.features.compare.graph_changes import Pairs, RunGraph, kernel_changes, without_names
from tests.support import built, sessions

TRITON = """
# kernel path: /tmp/torchinductor_me/{hash}/{hash}.py
# Topologically Sorted Source Nodes: [relu], Original ATen: [aten.relu]
triton_poi_fused_relu_{number} = async_compile.triton('triton_poi_fused_relu_{number}', '''
import triton

@triton_heuristics.pointwise(
    size_hints={{'x': 1024}},
    inductor_meta={{'kernel_name': 'triton_poi_fused_relu_{number}', 'backend_hash': '{backend}', 'num_load': 1}},
)
@triton.jit
def triton_poi_fused_relu_{number}(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = {size}
    tmp0 = tl.load(in_ptr0 + (x0), xmask)  # {comment}
''')
"""


def triton(number: int = 0, size: int = 1024, letter: str = "a") -> str:
    return TRITON.format(
        hash=f"c{letter * 51}", number=number, backend=letter.upper() * 64, size=size, comment="a comment in a line"
    )


def test_names_hashes_and_paths_do_not_count():
    assert without_names(triton(0, letter="a")) == without_names(triton(12, letter="b"))


def test_a_number_in_the_code_counts():
    one, other = without_names(triton(size=1024)), without_names(triton(size=2048))
    assert [(a.strip(), b.strip()) for a, b in zip(one, other, strict=True) if a != b] == [
        ("xnumel = 1024", "xnumel = 2048")
    ]


def test_headers_of_cpp_are_kept_without_their_folder():
    text = '#include "/tmp/torchinductor_me/2r/c2rabc.h"\nextern "C"  void kernel(float* a)\n{\n}\n'
    assert without_names(text)[0] == '#include "c2rabc.h"'
    assert without_names("// only a comment\n\n   # another\n") == ()


def registers(number: int, spills: int) -> Session:
    first, *others = built.BUILT
    return replace(built.SESSION, built=(replace(first, registers=number, spills=spills), *others))


def sized(factor: int) -> Session:
    """Return a run whose kernels are the same whatever the sizes, as with dynamic ones."""
    launches = [
        replace(each, launches=tuple(replace(one, read=64 * factor, written=32 * factor) for one in each.launches))
        for each in built.SESSION.kernels
    ]
    return replace(built.SESSION, kernels=tuple(launches))


def test_kernels_that_differ_only_in_bytes_are_one_change_of_their_graph():
    found = compare(sized(1), sized(3)).changes
    graphs = {each.graph for each in built.SESSION.kernels}
    assert len(found) == len(graphs)
    for change in found:
        number = sum(each.launches != () for each in built.SESSION.kernels)
        assert (change.what, change.how) == (What.KERNEL, ChangeKind.CHANGED)
        assert change.was is not None
        assert "equal but for bytes" in change.was
        assert len(change.follows) == number + 1


def test_a_limit_on_registers_is_compared():
    first, *others = built.SESSION.built
    of_limit = (replace(built.SESSION, built=(replace(first, register_limit=limit), *others)) for limit in (128, 64))
    (change,) = compare(*of_limit).changes
    assert (change.was or "").endswith(": 128 registers allowed")
    assert (change.now or "").endswith(": 64 registers allowed")


def test_registers_and_spills_of_a_built_kernel_are_compared():
    (change,) = compare(registers(64, 0), registers(255, 12)).changes
    assert (change.what, change.how) == (What.KERNEL, ChangeKind.CHANGED)
    assert change.was is not None
    assert change.was.endswith(": 64 registers, 0 spilled registers")
    assert change.now is not None
    assert change.now.endswith(": 255 registers, 12 spilled registers")


def compared(session: Session) -> Session:
    """Return a session whose calls were compared with eager."""
    return replace(session, scenarios=(Scenario("base", calls=1, compared=1),))


def test_wrong_results_are_a_change_of_accuracy():
    wrong = compared(sessions.ALL["dangerous"])
    right = replace(wrong, dangers=())
    assert wrong.dangers
    assert [(each.what, each.how) for each in compare(right, wrong).changes] == [
        (What.ACCURACY, ChangeKind.ADDED)
    ] * len(wrong.dangers)
    assert What.ACCURACY in compare(right, wrong).compared


def test_unmeasured_results_are_not_compared():
    wrong = replace(sessions.ALL["dangerous"], scenarios=())
    assert compare(replace(wrong, dangers=()), wrong).equal


def test_function_that_no_longer_runs_eagerly_is_a_removed_skip():
    partial = sessions.ALL["partial"]
    assert partial.skips
    found = compare(partial, replace(partial, skips=())).changes
    assert {(each.what, each.how) for each in found} == {(What.SKIP, ChangeKind.REMOVED)}


def seen(graph: str, *kernels: str) -> RunGraph:
    """Return a graph with kernels of these sources."""
    made = Graph(graph, "f", "net.py", 3, 1)
    found = tuple(replace(built.SESSION.kernels[0], graph=graph, source=each) for each in kernels)
    return RunGraph(Session(graphs=(made,), kernels=found, built=()), made, None, None, "net.py", "f", "", graph)


def test_kernel_that_a_new_break_moves_into_another_graph_is_not_removed():
    whole, first, rest = seen("0/0", "a = 1", "b = 2"), seen("0/0", "a = 1"), seen("1/0", "b = 2")
    assert kernel_changes(Pairs(((whole, first),), (), (rest,))).changes == ()
    assert kernel_changes(Pairs(((first, whole),), (rest,), ())).changes == ()


def test_kernel_that_is_gone_is_removed_once_for_each_that_did_not_move():
    whole, first, rest = seen("0/0", "a = 1", "b = 2", "b = 2"), seen("0/0", "a = 1"), seen("1/0", "b = 2")
    (change,) = kernel_changes(Pairs(((whole, first),), (), (rest,))).changes
    assert (change.what, change.how) == (What.KERNEL, ChangeKind.REMOVED)
