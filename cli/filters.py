"""Before a capture, check options that narrow a view as far as possible without the run."""

import re
from collections.abc import Iterable

from ctrace.inspector.errors import TargetError

_GRAPH = re.compile(r"!?\d+(/\d+)*(_\d+)?")
"""A compile id of torch, `[!compiled autograd id/]frame/compilation[_attempt]` (2.13, torch/_guards.py)."""
_LINE = re.compile(r"(?:.*:)?[0-9]{1,9}(?:-[0-9]{1,9})?", re.DOTALL)


def check_graph(graph: str | None) -> None:
    """Refuse an invalid graph id.

    Raises:
        TargetError: the id is invalid.
    """
    if graph is not None and not _GRAPH.fullmatch(graph):
        raise TargetError(f"--graph {graph}: no graph has such a name", "name one as ctrace explain does, such as 0/1")


def check_line(line: str | None) -> None:
    """Refuse a place without a line number.

    Raises:
        TargetError: there is no line number.
    """
    if line and not _LINE.fullmatch(line):
        raise TargetError(f"--line {line}: there is no line number", "write FILE:LINE or LINE")


def check_part(stage: str | None) -> None:
    """Refuse a stage without kernels.

    Raises:
        TargetError: the stage is unknown.
    """
    from ctrace.inspector.facts.kernel_facts import Stage

    _check("--stage", stage, list(Stage))


def check_ir(stage: str | None) -> None:
    """Refuse a stage that Triton does not have on any GPU.

    Raises:
        TargetError: the stage is unknown.
    """
    from ctrace.inspector.facts.built import IR_STAGES

    # The last two are for AMD GPUs (Triton 3.7, backends/amd/compiler.py); their text is kept if there is any.
    _check("--ir", stage, IR_STAGES, also=("amdgcn", "hsaco"))


def check_diff(stages: str | None) -> None:
    """Refuse `before..after` with an unknown stage.

    Raises:
        TargetError: a stage is unknown, or the text has another form.
    """
    if stages is None:
        return
    from ctrace.inspector.findings.graphs.stage_diff import check_form

    check_form(stages)
    for stage in stages.split(".."):
        check_graph_stage(stage or None, "--diff")


def check_graph_stage(stage: str | None, option: str = "--stage") -> None:
    """Refuse an unknown stage; a stage that occurs twice has a number, `forward_2`.

    Raises:
        TargetError: the stage is unknown.
    """
    from ctrace.inspector.facts.graph_facts import GraphStage

    name = re.sub(r"_\d+$", "", stage.strip().replace("-", "_")) if stage else None
    parts = [f"{each}_{part}" for each in GraphStage for part in ("forward", "backward", "inference")]
    _check(option, name, list(GraphStage), also=parts)


def _check(option: str, name: str | None, known: Iterable[str], also: Iterable[str] = ()) -> None:
    from ctrace.inspector.findings.kernels.kernel_view import suggestion

    stage = None if name is None else name.strip().lower()
    if stage is not None and stage not in (*known, *also):
        raise TargetError(f"{option} {name}: there is no such stage", suggestion(stage, map(str, known)))
