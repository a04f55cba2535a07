"""Bounds and spills of a run with `--target`, in short sentences for screens and Markdown."""

from collections.abc import Iterator

from ctrace.inspector.facts.built import Built
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.kernels.bounds import whole
from ctrace.inspector.findings.kernels.built_view import resources
from ctrace.inspector.findings.target_view import target_of
from ctrace.reports import format as fmt


def least_text(seconds: float | None) -> str:
    """Write a bound, `12.3 µs` or `240.0 ns`; empty if it is not known."""
    if seconds is None:
        return ""
    if 0 < seconds < 0.05e-9:
        return "under 0.1 ns"
    if seconds >= 1e-6:
        return fmt.microseconds(seconds * 1e6)
    return f"{seconds * 1e9:.1f} ns"


def kernel_facts(session: Session) -> Iterator[str]:
    """Summarize bounds and spills of the kernels; write nothing for a run without `--target`."""
    gpu = target_of(session)
    if gpu is None or not session.kernels:
        return
    least = whole(session)
    name = fmt.one_line(gpu.target, 30)
    if least is not None:
        how = "computed from bytes and FLOPs, with cold caches; times not measured"
        yield f"at least {least_text(least)} on {name} for one run of each graph part: {how}"
    yield spills_text(session)


def spills_text(session: Session) -> str:
    """Say how many compiled kernels spill registers: `1 of 3 compiled kernels spills registers`."""
    used = [each for each in resources(session) if each.built.spills is not None]
    every = {_kernel(each.built) for each in used}
    if not every:
        return "spills not known: Triton compiled no kernel"
    spilling = {_kernel(each.built) for each in used if each.built.spills}
    if len(every) == 1:
        return f"the one compiled kernel spills {'' if spilling else 'no '}registers"
    verb = "spill" if len(spilling) > 1 else "spills"
    return f"{len(spilling) or 'none'} of {fmt.count(len(every), 'compiled kernel')} {verb} registers"


def _kernel(built: Built) -> tuple[str, str, str]:
    return built.graph, built.stage, built.kernel
