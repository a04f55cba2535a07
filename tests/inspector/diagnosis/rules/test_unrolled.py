"""A run without findings whose graph is mostly one unrolled loop."""

from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.facts.diagnosis import ApplyKind
from ctrace.inspector.facts.graphs import Unrolled
from ctrace.inspector.facts.trial import Part
from tests.inspector.diagnosis.scenes import FILE, broken, ran

TEXT = """\
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        for t in range(48):
            h = self.cell(x[:, t], h)
        return h"""
PARTS = (Part("model", "Net", FILE, 3, 6), Part("model.cell", "Cell", FILE, 20, 30))
LOOP = Unrolled(FILE, 4, "forward", 48, 960, "0/0")


def test_the_cell_that_a_long_loop_calls_is_named():
    (only,) = diagnose(ran(TEXT, unrolled=(LOOP,), parts=PARTS)).advice
    assert only.text == (
        "Nothing to fix. The loop at net.py:4 is unrolled 48 times (960 ops); if compiling takes too long, compile "
        "what it calls instead of the whole: `model.cell.forward = torch.compile(model.cell.forward)`."
    )
    assert only.checked is None
    assert only.apply is not None
    assert only.apply.kind is ApplyKind.PLACE


def test_a_short_loop_and_a_run_with_findings_say_nothing_of_it():
    assert not diagnose(ran(TEXT, unrolled=(replace(LOOP, ops=90),), parts=PARTS)).advice
    found = diagnose(ran(TEXT, broken(5), unrolled=(LOOP,), parts=PARTS)).advice
    assert not any("unrolled" in each.text for each in found)
