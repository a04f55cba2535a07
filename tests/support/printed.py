"""Handmade sessions with printed graphs."""

from msgspec.structs import replace

from ctrace.inspector.facts.graph_facts import Graphs, GraphStage, Printed, SymbolMeant
from ctrace.inspector.facts.session import Compilation, Session
from tests.support.helpers import recorded
from tests.support.sessions import CWD, HEALTHY, MODEL

HOSTILE_TEXT = """\
class <b>&"'\x1b[31m(torch.nn.Module):
    def forward(self, x: "f32[2, \u202e3][3, 1]cpu", y: "Evil<script>(f32[2][1]cpu)"):
        # File: \x1b]0;gone\x07/a.py:8 in f, code: </text><script>alert("1")</script> \u202e
        z: "f32[2, 3][3, 1]cpu" = torch.ops.aten.add.Tensor(x, '</svg>"; bad -> worse; \\\\', "<&>")
        w = \x1b[2J
        return (z, "</text>\x1b")
"""


def session_of(*printed: Printed, metadata: str = "", symbols: dict[str, SymbolMeant] | None = None) -> Session:
    """Make a session of one compilation with a printed graph."""
    at = Compilation("0/0", "forward", MODEL, 8)
    return replace(HEALTHY, compilations=(at,), printed={"0/0": Graphs(printed, metadata, symbols or {})})


def trained() -> Session:
    """Return the recorded run of a trained block, moved to the folder of the other sessions."""
    return recorded("trained")


HOSTILE = session_of(
    Printed(GraphStage.DYNAMO, HOSTILE_TEXT, {"gone": ("1",), "z": ("7",)}),
    Printed(GraphStage.FORWARD, HOSTILE_TEXT),
    Printed(GraphStage.BACKWARD, "no \x1b graph"),
    Printed(GraphStage.POST_GRAD, HOSTILE_TEXT.replace("aten.add", "aten.sub")),
    metadata="ViewAndMutationMeta(input_info=[InputAliasInfo(mutates_data=True), InputAliasInfo()]",
)
NONE = replace(HEALTHY, printed={})
assert CWD
