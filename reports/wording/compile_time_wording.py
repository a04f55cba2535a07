"""Words for compile time and for caches."""

from collections import Counter
from collections.abc import Iterator

from ctrace.inspector.facts.compile_time import CompileTime, LookupOutcome, TorchCachesUsed
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.compile_time import compile_time_view
from ctrace.inspector.findings.compile_time.compile_time_fold import lanes_of
from ctrace.reports import format as fmt
from ctrace.reports.wording.durations import duration

_LARGEST = 2


def headline(session: Session) -> str:
    """Say how long compiling took, and what took most of it."""
    whole = compile_time_view.seconds(session.compile_time)
    if whole is None:
        return "No compile time: the log has no timed step of torch.compile."
    parts = compile_time_view.phases(session.compile_time)
    largest = sorted(parts, key=lambda name: -parts[name])[:_LARGEST]
    most = " and ".join(f"{name} ({parts[name] / whole:.0%})" for name in largest)
    graphs = fmt.count(sum(each.id is not None for each in compile_time_view.graphs(session)), "compilation")
    return f"Compiling took {duration(whole)} for {graphs}, mostly {most}.{_hits(session.compile_time)}"


def _hits(found: CompileTime) -> str:
    if not found.lookups:
        return ""
    numbers = Counter(each.outcome for each in found.lookups)
    return f" Caches: {', '.join(fmt.count(numbers[each], str(each)) for each in LookupOutcome if numbers[each])}."


def circumstances(session: Session) -> Iterator[str]:
    """Say how the run was made, where that changes what the times mean."""
    environment = session.environment
    if not environment.ctrace:
        yield "From a log of torch's own, without ctrace's hooks."
    elif session.compile_time.use.kind in ("private", "user"):
        yield "Measured with caches on, and without the hooks that slow down compiling."
    else:
        built = "Kernels were built" if environment.built else "Kernels were generated, not built"
        yield f"{built}; caches were off, and ctrace's hooks, which take time, were on."
        yield "To measure without them: ctrace time --compile model.py"
    if any(span.is_cut for lane in lanes_of(session.compile_time) for span in lane.spans):
        yield "The log ends before compiling does: the last steps are cut off."


def use(found: TorchCachesUsed) -> str:
    """Say which caches a run could use."""
    match found.kind:
        case "private":
            return "on, in a private folder that is kept between runs"
        case "user":
            return f"on, in your own folder ({fmt.one_line(found.folder, 120)})"
        case "off":
            return "off in this run"
    return "as the job had them"
