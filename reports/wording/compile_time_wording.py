"""Words for compile time and for caches."""

from collections import Counter
from collections.abc import Iterator

from ctrace.inspector.facts.compile_time import LookupOutcome, TorchCachesUsed
from ctrace.inspector.findings.compile_time.compile_time_view import CompileAnswer, CompileDocument
from ctrace.reports import format as fmt
from ctrace.reports.wording.durations import duration

_LARGEST = 2


def headline(found: CompileAnswer) -> str:
    """Say how long compiling took, and what took most of it."""
    whole, parts = found.seconds, found.phases
    if whole is None:
        return "No compile time: the log has no timed step of torch.compile."
    largest = sorted(parts, key=lambda name: -parts[name])[:_LARGEST]
    most = " and ".join(f"{name} ({parts[name] / whole:.0%})" for name in largest)
    graphs = fmt.count(sum(each.id is not None for each in found.graphs), "compilation")
    return f"Compiling took {duration(whole)} for {graphs}, mostly {most}.{_hits(found)}"


def _hits(found: CompileAnswer) -> str:
    if not found.caches:
        return ""
    numbers = Counter(each.lookup.outcome for each in found.caches)
    return f" Caches: {', '.join(fmt.count(numbers[each], str(each)) for each in LookupOutcome if numbers[each])}."


def circumstances(document: CompileDocument) -> Iterator[str]:
    """Say how the run was made, where that changes what the times mean."""
    environment = document.run.environment
    if not environment.ctrace:
        yield "From a log of torch's own, without ctrace's hooks."
    elif document.compile.use.kind in ("private", "user"):
        yield "Measured with caches on, and without the hooks that slow down compiling."
    else:
        built = "Kernels were built" if environment.built else "Kernels were generated, not built"
        yield f"{built}; caches were off, and ctrace's hooks, which take time, were on."
        yield "To measure without them: ctrace time --compile model.py"
    if document.compile.is_cut:
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
