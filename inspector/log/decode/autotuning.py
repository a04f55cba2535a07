"""Decode the spans of a sweep of autotuning in torch's own log."""

from ctrace.inspector.facts.autotuning import Choice, ChoiceStatus, SweepReported, Tuned, TunedInput
from ctrace.inspector.log.fields import Fields, loaded

_SWEEP = "_template_autotuning"
_COMPILING = "_template_precompiling"
REPORTED = (_SWEEP, _COMPILING)
"""How the names of spans end that say something of a sweep."""
_MILLI = 1e-3


def reported(graph: str | None, data: Fields) -> SweepReported | None:
    """Decode the end of a sweep's span, or of the span in which choices were built; None: it says nothing of them.

    Torch adds what it measured to `..._template_autotuning`, and the choices that it cannot build to
    `..._template_precompiling` (2.11 to 2.15, _inductor/select_algorithm.py).
    """
    name = data.text("name")
    if graph is None or not name.endswith(REPORTED) or data.is_null("args"):
        return None
    facts = data.object("args")
    if name.endswith(_SWEEP) and facts.maybe_text("autotune_choices_stats"):
        return SweepReported(_sweep(graph, name.removesuffix(_SWEEP), facts))
    if name.endswith(_COMPILING) and facts.maybe_text("metadata"):
        return SweepReported(_not_built(graph, name.removesuffix(_COMPILING), facts))
    return None


def _sweep(graph: str, op: str, facts: Fields) -> Tuned:
    stats = Fields(loaded(facts.text("autotune_choices_stats")), "the statistics of autotuning")
    best = _named(stats, "best_kernel", "best_time")
    triton = _named(stats, "best_triton_kernel", "best_triton_time") if stats.has("best_triton_kernel") else None
    found = (best,) if triton is None else (best, triton)
    shapes = facts.maybe_text("autotune_shape") or ""
    dtypes = (facts.maybe_text("autotune_dtypes") or "").split(", ")
    inputs = tuple(
        TunedInput(tuple(shape.split("x")), dtype=dtype.removeprefix("torch."))
        for shape, dtype in zip(shapes.split(", "), dtypes, strict=False)
    )
    unnamed = max(stats.integer("num_choices") - len(found), 0)
    return Tuned(graph, None, op, inputs, found, is_on=True, is_swept=True, unnamed=unnamed)


def _named(stats: Fields, name: str, seconds: str) -> Choice:
    configuration = stats.maybe_text(f"{name}_desc") or ""
    took = stats.number(seconds) * _MILLI
    return Choice(stats.text(name), "", configuration, ChoiceStatus.TIMED, took)


def _not_built(graph: str, op: str, facts: Fields) -> Tuned:
    failures = Fields(loaded(facts.text("metadata")), "what failed to compile").objects("exceptions")
    choices = tuple(
        Choice("", each.maybe_text("choice_type") or "", each.maybe_text("choice") or "", error=text)
        for each in failures
        if (text := each.maybe_text("exception_message") or "not said")
    )
    return Tuned(graph, None, op, (), choices)
