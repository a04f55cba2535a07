"""Torch's real behavior on each script of tests/scripts that breaks, runs eagerly or recompiles, checked by hand.

The same facts hold for the recorded log of a script (test_shapes.py beside the readers) and for a run of today
(integration/test_shapes.py).
"""

from dataclasses import dataclass

from ctrace.inspector.facts.findings import Cause
from ctrace.inspector.facts.session import Session, Verdict
from ctrace.inspector.findings.recompiles.recompile_view import caches, groups
from ctrace.inspector.knowledge.releases import release_of


@dataclass(frozen=True)
class Shape:
    verdict: Verdict
    graphs: int
    breaks: tuple[tuple[int, str, str, str, str, int, int], ...] = ()
    """Line, function, gb id, kind, owner, times, graphs added."""
    skips: tuple[tuple[str, str, int | None], ...] = ()
    """Function, rule, index of the break."""


PARTIAL, NOTHING = Verdict.PARTIAL, Verdict.NOT_COMPILED

SHAPES = {
    "break_first": Shape(PARTIAL, 1, ((8, "first", "GB0059", "break", "user", 1, 0),)),
    "break_last": Shape(PARTIAL, 1, ((9, "last", "GB0059", "break", "user", 1, 0),)),
    "break_only": Shape(NOTHING, 0, ((8, "only", "GB0059", "break", "user", 1, 0),)),
    "break_paths": Shape(PARTIAL, 4, ((19, "helper", "GB0059", "break", "user", 7, 1),)),
    "break_in_with": Shape(
        PARTIAL,
        2,
        ((19, "resumes", "GB0059", "break", "user", 1, 1), (11, "noisy", "GB0059", "break", "user", 1, 0)),
        (("gives_up", "unresumable", 1),),
    ),
    "break_in_while": Shape(PARTIAL, 3, ((8, "grow", "GB0170", "break", "user", 2, 2),)),
    "break_in_comprehension": Shape(
        PARTIAL, 2, ((9, "<listcomp>", "GB0124", "break", "user", 2, 1),), (("<listcomp>", "loop", 0),)
    ),
    "break_in_generator": Shape(
        NOTHING, 0, ((10, "pieces", "GB0059", "break", "user", 1, 0),), (("consumed", "unresumable", 0),)
    ),
    "generator_compiled": Shape(NOTHING, 0, (), (("pieces", "generator", None),)),
    "break_in_lambda": Shape(PARTIAL, 2, ((5, "<lambda>", "GB0170", "break", "user", 1, 1),)),
    "break_in_backward": Shape(PARTIAL, 2, ((15, "backward", "GB0059", "break", "user", 1, 1),)),
    "break_in_hook": Shape(PARTIAL, 2, ((11, "hook", "GB0059", "break", "user", 2, 0),)),
    "disabled_method": Shape(PARTIAL, 2, ((17, "forward", "GB0099", "disabled", "user", 1, 1),)),
    "dispatch_mode": Shape(NOTHING, 0, (), (("watched", "dispatch_mode", None),)),
    "only_imports": Shape(NOTHING, 0, (), (("prepare", "no_ops", None),)),
    "suppressed_errors": Shape(NOTHING, 0, (), (("silent", "failed", None),)),
    "helper_in_loop": Shape(PARTIAL, 1, ((14, "looped", "GB0059", "break", "user", 1, 0),), (("looped", "loop", 0),)),
    "break_in_library": Shape(PARTIAL, 2, ((11, "averaged", "GB0134", "break", "library", 1, 1),)),
    "helper_without_tensor": Shape(PARTIAL, 2, ((7, "count", "GB0059", "break", "user", 1, 1),)),
    "two_functions": Shape(PARTIAL, 1, ((14, "bad", "GB0059", "break", "user", 1, 0),), (("bad", "try", 0),)),
}

_ON_PYTHON_3_12 = {
    "break_in_while": Shape(PARTIAL, 1, ((8, "grow", "GB0170", "break", "user", 2, 0),), (("grow", "loop", 0),)),
    "break_in_comprehension": Shape(PARTIAL, 2, ((9, "picked", "GB0124", "break", "user", 1, 1),)),
}
_ON_TORCH_2_11 = {"break_in_hook": Shape(PARTIAL, 1, ((11, "hook", "GB0059", "break", "user", 2, 0),))}


def expected(name: str, torch: str, python: tuple[int, int]) -> Shape:
    """Return what a torch and a Python do with a script; the table above is of torch 2.13 and Python 3.11."""
    of_torch = _ON_TORCH_2_11 if release_of(torch) == (2, 11) else {}
    of_python = _ON_PYTHON_3_12 if python >= (3, 12) else {}
    return {**SHAPES, **of_torch, **of_python}[name]


def shape_of(session: Session) -> Shape:
    breaks = tuple(
        (each.line, each.function, " ".join(each.gb), str(each.kind), str(each.owner), each.times, each.cost.graphs)
        for each in session.breaks
    )
    skips = tuple((skip.function, skip.rule, skip.break_index) for skip in session.skips)
    return Shape(session.verdict, len(session.graphs), breaks, skips)


Change = tuple[str, str, str | None, str | None, int | None, int]
"""Kind, subject, was, now, line that specialized it, number of similar guards."""


@dataclass(frozen=True)
class Again:
    """One recompile."""

    nearest: str
    distances: dict[str, int]
    causes: tuple[Change, ...]


@dataclass(frozen=True)
class Cached:
    """All recompiles of a script, and their outlook."""

    recompiles: dict[str, Again]
    outlooks: dict[str, str]
    """By subject."""
    objects: tuple[str, ...] = ()
    """Modules that share the cache."""


def _same_kind(kind: str, subject: str, line: int, *values: str) -> dict[str, Again]:
    """Every call has a new value, at the same distance from each entry."""
    return {
        f"0/{number}": Again(
            f"0/{number - 1}",
            {f"0/{entry}": 1 for entry in range(number)},
            ((kind, subject, values[number - 1], values[number], line, 0),),
        )
        for number in range(1, len(values))
    }


FLOATS = ("dtype", "x.dtype", "torch.float32", "torch.float64", None)
LOOP = _same_kind("size", "x.size(0)", 9, "4", "5", "6")
RECOMPILES = {
    "several_causes": Cached(
        {
            "0/1": Again(
                "0/0",
                {"0/0": 4},
                (
                    (*FLOATS, 0),
                    ("argument_value", "flip", "False", "True", 8, 0),
                    ("length", "len(more)", "1", "2", 10, 0),
                    ("argument_value", "factor", "0.5", "1.5", 10, 0),
                ),
            )
        },
        {"x.dtype": "finite", "flip": "settles", "len(more)": "unknown", "factor": "settles"},
    ),
    "nearest_is_older": Cached(
        {
            "0/1": Again("0/0", {"0/0": 2}, ((*FLOATS, 0), ("argument_value", "how", "'sum'", "'mean'", 8, 0))),
            "0/2": Again("0/0", {"0/1": 2, "0/0": 1}, (("argument_value", "how", "'sum'", "'max'", 8, 0),)),
        },
        {"how": "diverges", "x.dtype": "finite"},
    ),
    "loop_over_size": Cached(LOOP, {"x.size(0)": "diverges"}),
    "shared_code": Cached(
        _same_kind("attribute_value", "self.number", 12, "0", "1", "2"),
        {"self.number": "finite"},
        ("Block 0", "Block 1", "Block 2"),
    ),
    "cast_model": Cached({"0/1": Again("0/0", {"0/0": 5}, ((*FLOATS, 4),))}, {"x.dtype": "finite"}, ("Net 0",)),
}


def cached_of(session: Session) -> Cached:
    (cache,) = caches(session)
    return Cached(
        {
            each.compilation: Again(each.nearest or "", dict(each.distances), tuple(map(_change, each.causes)))
            for each in session.recompiles
        },
        {group.subject: str(group.prospect.outlook) for group in groups(session)},
        cache.objects,
    )


def _change(cause: Cause) -> Change:
    return cause.kind, cause.subject, cause.was, cause.now, cause.line, cause.others
