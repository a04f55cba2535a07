"""Words for the one comparison of compiled with eager that follows a `--build` run."""

from ctrace.inspector.facts.compile_time import Speed
from ctrace.reports import format as fmt
from ctrace.reports.wording.durations import duration, times


def sentence(found: Speed) -> str:
    """Say whether compiled is faster than eager, with the range of the ratio."""
    if found.ratio is None or found.low is None or found.high is None:
        return f"not measured, because {found.why or 'no round was measured'}"
    each = " a step" if found.part == "step" else ""
    both = f"{duration(found.compiled)} against {duration(found.eager)}{each}"
    rounds = fmt.count(found.rounds, "round")
    if found.verdict == "faster":
        span = f"{times(found.low)} to {times(found.high)} over {rounds}"
        return f"compiled is {times(found.ratio)} faster than eager ({both}; {span})"
    if found.verdict == "slower" and min(found.low, found.ratio, found.high) > 0:
        span = f"{times(1 / found.high)} to {times(1 / found.low)} over {rounds}"
        return f"compiled is {times(1 / found.ratio)} slower than eager ({both}; {span})"
    span = f"{times(found.low)} to {times(found.high)} over {rounds}"
    if found.verdict == "no_difference":
        return f"no measurable difference to eager ({both}; {span})"
    return f"undecided, the times vary too much ({both}; {span})"
