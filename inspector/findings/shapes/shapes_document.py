"""What `ctrace shapes` answers: the sizes of each function, and lines that keep them dynamic."""

from typing import ClassVar

from ctrace.inspector.facts.session import RunDocument, Session
from ctrace.inspector.findings.shapes.dynamic_marks import Mark, marks
from ctrace.inspector.findings.shapes.shape_view import FunctionShapes, by_function, violations


class ShapesDocument(RunDocument, frozen=True, kw_only=True):
    """All sizes, function by function."""

    JSON: ClassVar[str] = "schema verdict=run.verdict functions violations marks problems=run.problems"
    functions: tuple[FunctionShapes, ...]
    violations: tuple[str, ...]
    marks: tuple[Mark, ...]


def shapes_document(session: Session, function: str | None = None) -> ShapesDocument:
    """Answer for all functions, or for one.

    Raises:
        TargetError: there is no such function.
    """
    found = by_function(session, function)
    offered = marks(found, session.environment.torch)
    return ShapesDocument(run=session.run, functions=found, violations=violations(session), marks=offered)
