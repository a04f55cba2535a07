"""Describe times, and say what they mean."""

from ctrace.inspector.features.time.timing_model import MeasuredConfiguration, TimedPart
from ctrace.inspector.features.time.timing_view import Breakdown, crowd, fixed_costs
from ctrace.inspector.findings.ratios import Interval, RatioVerdict, SpeedComparison
from ctrace.reports import format as fmt
from ctrace.reports.format import digits, duration, times

HEADS = {
    RatioVerdict.FASTER: "FASTER",
    RatioVerdict.SLOWER: "SLOWER",
    RatioVerdict.NO_DIFFERENCE: "NO MEASURABLE DIFFERENCE",
    RatioVerdict.UNDECIDED: "UNDECIDED",
}
_FIXED = 0.4
"""If fixed costs have at least this share of a call, they explain why compiling does not help."""
_LOUD = 0.25
"""If eager times spread at least this much, something else disturbs them."""


def speedup(found: SpeedComparison | None) -> str:
    """Write a comparison for a table: `1.42x (1.38 to 1.47)`."""
    if found is None:
        return "not measured"
    ratio = found.ratio
    return f"{times(ratio.median)} ({digits(ratio.low)} to {digits(ratio.high)})"


def answer(part: TimedPart, name: str = "Compiled") -> str:
    """Answer whether compiling helps, in one sentence."""
    found, eager, compiled = part.speedup, part.eager, part.compiled
    if found is None or eager is None or compiled is None:
        return "No round was measured."
    both = f"{duration(compiled.median)} against {duration(eager.median)}{_unit(part)}"
    rounds = fmt.count(found.ratio.rounds, "round")
    match found.verdict:
        case RatioVerdict.FASTER:
            return f"{name} is {times(found.ratio.median)} faster than eager ({_span(found.ratio, rounds)}): {both}."
        case RatioVerdict.SLOWER:
            slower = inverse(found.ratio)
            return f"{name} is {times(slower.median)} slower than eager ({_span(slower, rounds)}): {both}."
        case RatioVerdict.NO_DIFFERENCE:
            return f"No measurable difference: {both} ({_range(found.ratio, rounds)})."
    if not found.ratio.is_sure:
        return f"{rounds.capitalize()} cannot decide: {both}."
    return f"The times vary too much to decide: {both} ({_range(found.ratio, rounds)})."


def _unit(part: TimedPart) -> str:
    return {"step": " a step", "backward": " a backward"}.get(part.part, " a call")


def _span(ratio: Interval, rounds: str) -> str:
    return f"{digits(ratio.low)} to {digits(ratio.high)} over {rounds}"


def _range(ratio: Interval, rounds: str) -> str:
    return f"{digits(ratio.low)}x to {digits(ratio.high)}x over {rounds}"


def inverse(ratio: Interval) -> Interval:
    """Turn "0.5 times as fast" into "2 times slower"."""
    return Interval(1 / ratio.median, 1 / ratio.high, 1 / ratio.low, ratio.rounds, ratio.confidence)


def reasons(measured: MeasuredConfiguration) -> list[tuple[str, str]]:
    """Return what prevents a better or a more certain result, the most important first, each with what to do."""
    part = measured.first
    if part is None or part.speedup is None:
        return []
    verdict, found = part.speedup.verdict, []
    if measured.compiled is not None and not measured.compiled.graphs:
        found.append(("Dynamo captured no graph: both sides run eagerly.", "see ctrace explain"))
    if verdict is RatioVerdict.UNDECIDED:
        found += _undecided(measured, part)
    if verdict in (RatioVerdict.SLOWER, RatioVerdict.NO_DIFFERENCE):
        found += _too_short(measured, part)
    return found + _of_model(measured, part)


def _undecided(measured: MeasuredConfiguration, part: TimedPart) -> list[tuple[str, str]]:
    if part.speedup is not None and not part.speedup.ratio.is_sure:
        return [("So few rounds cannot tell noise from a difference.", "use --rounds 6 or more")]
    crowded = crowd(measured)
    if crowded is not None and measured.setup is not None:
        what = (
            f"Other programs use this machine: {measured.load:.1f} processes wanted its {measured.setup.cores} cores."
        )
        fewer = ", or measure with --threads 1, which waits for fewer cores" if measured.setup.threads > 1 else ""
        return [(what, f"end them{fewer}")]
    return [("Something else uses this machine, or its clock changes.", "measure again, or with more --rounds")]


def disturbed(found: Breakdown) -> str:
    """Say why there is no table of where the time of a call goes."""
    called, timed = found.calls, found.timed
    pairs = (("eager", called.eager, timed.eager), ("compiled", called.compiled, timed.compiled))
    known = [(side, profiled, alone) for side, profiled, alone in pairs if profiled is not None and alone]
    side, profiled, alone = max(known, key=lambda one: one[1] / one[2])
    return (
        f"Not measured: profiled {side} calls took {duration(profiled)}, timed ones {duration(alone)}. The profiler "
        "does not slow calls down that much: something else used the machine. Measure again."
    )


def _too_short(measured: MeasuredConfiguration, part: TimedPart) -> list[tuple[str, str]]:
    share = fixed_costs(measured)
    if share is None or share < _FIXED or part.eager is None:
        return []
    what = (
        f"A call is too short: guards, the code around the graph and launches are {share:.0%} of a compiled call, "
        "whatever its sizes."
    )
    on_gpu = measured.setup is not None and measured.setup.device != "cpu"
    todo = "compile more work at once, or larger batches"
    return [(what, f"{todo}; --mode reduce-overhead replays all launches as one" if on_gpu else todo)]


def _of_model(measured: MeasuredConfiguration, part: TimedPart) -> list[tuple[str, str]]:
    found = []
    if part.drifts:
        what = "Eager calls get slower, or faster, from the first round to the last: calls change the model's state."
        found.append((what, "reset the state in inputs(), and use --fresh-inputs"))
    if part.unclean:
        counted = "does" if part.unclean == 1 else "do"
        what = f"{fmt.count(part.unclean, 'round')} compiled something, and {counted} not count."
        found.append((what, "see ctrace recompiles, then measure again"))
    kinds = {each.kind: each for each in measured.notes if each.scenario in ("", part.scenario)}
    if "unused_gradients" in kinds:
        found.append(("Calls record gradients that nothing uses.",
                      "--train measures the backward, too; --vary grad=off calls under no_grad"))  # fmt: skip
    if "compiles_itself" in kinds:
        found.append(("Eager calls compile, too: the model calls torch.compile itself, or an operator that does, "
                      "as torch.cond.", "to compare with plain eager, remove the inner torch.compile"))  # fmt: skip
    if "mutates_inputs" in kinds:
        found.append(("Calls change their inputs, so each call got new ones, made between the timed blocks.", ""))
    if "damaged" in kinds:
        found.append((f"The record of the measurement has damaged lines: {kinds['damaged'].text}.", "measure again"))
    return found


def conditions(measured: MeasuredConfiguration) -> str:
    """Say how it was measured: device, threads, versions, warming up."""
    setup = measured.setup
    if setup is None:
        return ""
    where = f"{setup.device} · {fmt.count(setup.threads, 'thread')} of {fmt.count(setup.cores, 'core')}"
    return f"{where} · torch {setup.torch} · python {setup.python}"


def warming(part: TimedPart) -> str:
    """Say how many calls came before the first round."""
    shown = []
    for each in part.warm_ups:
        text = f"{each.side} {fmt.count(len(each.seconds), 'call')}"
        if each.side == "compiled":
            text += f", {len(each.compiled) or 'none'} of them compiling"
            text += f", {fmt.count(each.recorded, 'CUDA graph')} recorded" if each.recorded else ""
        if not each.settled:
            text += ", times not settled"
        shown.append(text)
    return "; ".join(shown)


def cuda_graphs(state: str) -> str:
    """Write the state of CUDA graphs for a table."""
    return {"not_on_cpu": "no GPU", "partly": "in part"}.get(state, state)
