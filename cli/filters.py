"""What narrows a view, checked before a run is made for it, as far as the names are known without the run."""

import re
from collections.abc import Iterable

from ctrace.inspector.errors import TargetError

_GRAPH = re.compile(r"!?\d+(/\d+)*(_\d+)?")
"""A compile id of torch's, `[!compiled autograd id/]frame/compilation[_attempt]` (2.13, torch/_guards.py)."""
_LINE = re.compile(r"(?:.*:)?[0-9]{1,9}(?:-[0-9]{1,9})?", re.DOTALL)


def check_graph(graph: str | None) -> None:
    """Refuse what is the name of no graph of any run.

    Raises:
        TargetError: it is none.
    """
    if graph is not None and not _GRAPH.fullmatch(graph):
        raise TargetError(f"--graph {graph}: no graph has such a name", "name one as ctrace explain does, such as 0/1")


def check_line(line: str | None) -> None:
    """Refuse a place without a line number.

    Raises:
        TargetError: it has none.
    """
    if line and not _LINE.fullmatch(line):
        raise TargetError(f"--line {line}: there is no line number", "write FILE:LINE or LINE")


def check_part(stage: str | None) -> None:
    """Refuse what is no part of a graph that has kernels.

    Raises:
        TargetError: it is none.
    """
    from ctrace.inspector.model.kernels import Stage

    _check("--stage", stage, list(Stage))


def check_ir(stage: str | None) -> None:
    """Refuse what Triton makes on no GPU.

    Raises:
        TargetError: it is none.
    """
    from ctrace.inspector.model.built import IR_STAGES

    # The last two are of AMD's GPUs (Triton 3.7, backends/amd/compiler.py); their text is kept where there is one.
    _check("--ir", stage, IR_STAGES, also=("amdgcn", "hsaco"))


def check_diff(stages: str | None) -> None:
    """Refuse `before..after` of what is no stage of any graph.

    Raises:
        TargetError: one of them is none.
    """
    if stages is None:
        return
    from ctrace.inspector.graphs.stage_diff import check_form

    check_form(stages)
    for stage in stages.split(".."):
        check_graph_stage(stage or None, "--diff")


def check_graph_stage(stage: str | None, option: str = "--stage") -> None:
    """Refuse what is no stage of any graph; one that is there twice has a number, `forward_2`.

    Raises:
        TargetError: it is none.
    """
    from ctrace.inspector.model.graphs import GraphStage

    name = re.sub(r"_\d+$", "", stage.strip().replace("-", "_")) if stage else None
    parts = [f"{each}_{part}" for each in GraphStage for part in ("forward", "backward", "inference")]
    _check(option, name, list(GraphStage), also=parts)


def _check(option: str, asked: str | None, known: Iterable[str], also: Iterable[str] = ()) -> None:
    from ctrace.inspector.kernels.view import suggestion

    wanted = None if asked is None else asked.strip().lower()
    if wanted is not None and wanted not in (*known, *also):
        raise TargetError(f"{option} {asked}: there is no such stage", suggestion(wanted, map(str, known)))
