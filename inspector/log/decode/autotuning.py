"""Decode the entries about autotuning: ctrace's, and the span of a sweep in torch's own log."""

from ctrace.inspector.facts.autotuning import (
    AutotuningEvent,
    Choice,
    ChoicesListed,
    ChoiceStatus,
    ChoicesTimed,
    ChoiceTaken,
    KernelTuned,
    Spread,
    SweepReported,
    Timing,
    Tuned,
    TunedInput,
    TunedKernel,
    Untried,
)
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.log.fields import Fields, loaded

_SWEEP = "_template_autotuning"
_COMPILING = "_template_precompiling"
REPORTED = (_SWEEP, _COMPILING)
"""How the names of spans end that say something of a sweep."""
_MILLI = 1e-3


def autotuned(graph: str, data: Fields) -> AutotuningEvent:
    """Decode what torch was handed, measured or took.

    Raises:
        ValueError: it is none of what ctrace writes.
    """
    match what := data.text("what"):
        case "choices":
            return _listed(graph, data)
        case "times":
            return _timed(graph, data)
        case "taken":
            return ChoiceTaken(graph, data.integer("number"), data.text("name"), data.flag("fused"))
        case "configurations":
            return _kernel(graph, data)
    raise ValueError(f"an unknown event of autotuning: {what!r:.60}")


def _listed(graph: str, data: Fields) -> ChoicesListed:
    return ChoicesListed(
        id=graph,
        stage=Stage(data.text("stage")),
        number=data.integer("number"),
        op=data.text("op"),
        inputs=tuple(
            TunedInput(each.texts("shape"), each.texts("stride"), each.text("dtype"), each.text("device"))
            for each in data.objects("inputs")
        ),
        choices=tuple(
            Choice(each.text("name"), each.text("kind"), each.text("configuration")) for each in data.objects("choices")
        ),
        untried=tuple(Untried(each.text("what"), each.texts("reasons")) for each in data.maybe_objects("untried")),
        lines=data.maybe_places("lines"),
        is_on=data.flag("is_on"),
    )


def _timed(graph: str, data: Fields) -> ChoicesTimed:
    return ChoicesTimed(
        id=graph,
        number=data.integer("number"),
        timings=tuple(
            Timing(
                name=each.text("name"),
                seconds=each.maybe_number("seconds"),
                spread=_spread(each),
                is_built=each.flag("built"),
                has_run=each.flag("ran"),
                error=each.text("error"),
            )
            for each in data.objects("choices")
        ),
        is_cached=data.flag("cached"),
        seconds=data.number("seconds"),
        compile_seconds=data.maybe_number("compile_seconds"),
        timing_seconds=data.maybe_number("timing_seconds"),
    )


def _spread(data: Fields) -> Spread | None:
    if not data.has("runs"):
        return None
    return Spread(data.integer("runs"), *(data.number(name) for name in ("fastest", "low", "median", "high")))


def _kernel(graph: str, data: Fields) -> KernelTuned:
    return KernelTuned(
        TunedKernel(
            graph=graph,
            stage=Stage(data.text("stage")),
            kernel=data.text("kernel"),
            configurations=tuple(
                Choice(
                    name=each.text("name"),
                    kind="triton",
                    status=ChoiceStatus.FAILED_TO_RUN if each.is_null("seconds") else ChoiceStatus.TIMED,
                    seconds=each.maybe_number("seconds"),
                    spread=_spread(each),
                )
                for each in data.objects("configurations")
            ),
            taken=data.text("taken"),
            cache=data.maybe_text("cache") or "",
            sizes=data.maybe_table("sizes"),
            seconds=data.maybe_number("seconds"),
        )
    )


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
