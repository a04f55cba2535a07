"""Memory over time, from the schedule and the shapes."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.fusion_facts import BufferRole
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.findings.fusion import memory_view as subject
from ctrace.inspector.findings.fusion.memory_view import memory
from ctrace.inspector.findings.graphs.saved_tensors import SavedByForward, SavedTensor
from ctrace.inspector.findings.graphs.text.bytes import Memory
from ctrace.inspector.findings.graphs.text.fx import FxNode, FxNodeKind
from tests.support.fusions import FUSED, SIZE, buffer, node


def session_of(*nodes, buffers, stage=Stage.FORWARD, outputs=()):
    part = replace(FUSED.fusions[0], stage=stage, nodes=nodes, result=nodes, buffers=buffers, outputs=outputs)
    return replace(FUSED, fusions=(part,))


def test_a_buffer_lives_from_its_writer_to_its_last_reader():
    nodes = (
        node("a", read={"x": SIZE}, written={"p": SIZE}),
        node("b", read={"p": SIZE}, written={"q": SIZE}),
        node("c", read={"q": SIZE}, written={"out": SIZE}),
    )
    buffers = (buffer("x", BufferRole.INPUT), buffer("p"), buffer("q"), buffer("out", BufferRole.OUTPUT))
    (found,) = memory(session_of(*nodes, buffers=buffers, outputs=("out",)))
    (part,) = found.parts
    assert [(each.inputs, each.temporary, each.held) for each in part.moments] == [
        (SIZE, SIZE, 0),
        (SIZE, 2 * SIZE, 0),
        (SIZE, SIZE, SIZE),
    ]
    assert found.peak is not None
    assert found.peak[1].node.name == "b"


def test_buffers_of_unknown_size_are_counted_as_unknown():
    nodes = (node("a", written={"p": 0}),)
    (found,) = memory(session_of(*nodes, buffers=(replace(buffer("p"), bytes=None),)))
    assert [part.unknown for part in found.parts] == [1]


def test_saved_tensors_are_freed_after_their_last_use_in_the_backward(monkeypatch: pytest.MonkeyPatch):
    saved = [
        FxNode(name, FxNodeKind.CALL_FUNCTION, "torch.ops.aten.mul.Tensor", "") for name in ("early", "late", "view")
    ]
    early, late, view = saved
    tensors = (
        SavedTensor(early, early, Memory(SIZE)),
        SavedTensor(late, late, Memory(SIZE)),
        SavedTensor(view, early, Memory(SIZE)),  # the memory of `early`, which lives as long as this view of it
        SavedTensor(
            FxNode("weight", FxNodeKind.PLACEHOLDER, "weight", ""),
            FxNode("weight", FxNodeKind.PLACEHOLDER, "weight", ""),
            None,
        ),
    )
    monkeypatch.setattr(subject, "kept", lambda each, names: SavedByForward(tensors, 2 * SIZE, ()))
    nodes = (
        node("a", read={"late": SIZE, "tangent": SIZE}, written={"p": SIZE}),
        node("b", read={"p": SIZE, "view": SIZE}, written={"q": SIZE}),
        node("c", read={"q": SIZE, "weight": SIZE}, written={"grad": SIZE}),
    )
    names = ("early", "late", "view", "weight", "tangent")
    buffers = (
        *(buffer(name, BufferRole.INPUT) for name in names),
        buffer("p"),
        buffer("q"),
        buffer("grad", BufferRole.OUTPUT),
    )
    monkeypatch.setattr(subject, "compiled", lambda session: [SimpleNamespace(id=FUSED.fusions[0].graph)])
    (found,) = memory(session_of(*nodes, buffers=buffers, stage=Stage.BACKWARD, outputs=("grad",)))
    assert [(each.inputs, each.held, each.results, each.temporary) for each in found.parts[0].moments] == [
        (SIZE, 2 * SIZE, SIZE, SIZE),
        (SIZE, SIZE, 0, 2 * SIZE),
        (SIZE, 0, SIZE, SIZE),
    ]


def test_a_run_without_a_schedule_has_none():
    assert memory(replace(FUSED, fusions=())) == ()
