"""Screens of a run with `--target`: the GPU, choices that autotuning makes on it, and queries about the device.

Screen of the lower bounds on kernel run time on the target GPU, and what sets each bound.
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.facts.built import Gpu
from ctrace.inspector.facts.session import Environment
from ctrace.inspector.facts.target_gpu import DeviceQuestion, TimedCandidate, Undecided
from ctrace.inspector.findings.kernels.bounds import Least, PartLeast, peaks
from ctrace.inspector.findings.target_gpu_view import (
    NEEDS_DEVICE,
    Open,
    TargetDevice,
    question_place,
    question_sentence,
)
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import MOST, WIDE, capped, columned, hanging, item, more, section
from ctrace.reports.wording.kernels_wording import UNKNOWN, least_text, lines_text, memory

# Chosen: one line; Inductor's templates have dozens.
_CANDIDATES = 4


def basis_line(gpu: Gpu | TargetDevice | None) -> Iterator[RenderableType]:
    """If nothing ran on the target GPU, say what is generated, what is computed and what is not measured."""
    if gpu is not None:
        computed = "bytes, FLOPs and bounds are computed"
        yield Text(f"Kernels are generated, not run; {computed}. Times are {NEEDS_DEVICE}.", style="dim")


def code_note(target: TargetDevice | None) -> str:
    """Return the note that follows the title of code for a target GPU; empty without `--target`."""
    return fmt.framed(" (generated for ", target and fmt.one_line(target.gpu.target, 30), ", not run)")


def emitted_for(sentence: str) -> Iterator[RenderableType]:
    """Name the target GPU on a screen that has no verdict."""
    if sentence:
        yield Text(fmt.one_line(sentence, 600), style="yellow")


def nothing_compiled(environment: Environment) -> Text:
    """Say that registers, spills and shared memory are not known."""
    triton = "" if environment.triton else ": Triton is not installed"
    return Text(f"\nResources not known: Triton compiled none of these kernels{triton}.", style="dim")


def questions_section(found: Sequence[DeviceQuestion], *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """List where the program asks about the device."""
    if not found:
        return
    yield section("The program asks about the device")
    for each in capped(found, MOST, all_of_it=all_of_it):
        yield _question(each)
    if not all_of_it:
        yield from more(len(found), "question", "ctrace kernels --all")


def _question(each: DeviceQuestion) -> RenderableType:
    where = f"{question_place(each)} in {each.function}: "
    style = "" if each.as_target else "yellow"
    return item(Text.assemble((fmt.one_line(where, 120) + " ", "bold"), (fmt.one_line(question_sentence(each)), style)))


def choices_section(found: Iterable[Open], *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """List the choices that torch makes by autotuning on the device, and what the generated code uses."""
    for kind in found:
        yield section(f"Decided on the device, by autotuning: {fmt.one_line(kind.sentence, 100)}")
        if kind.are_compiled:
            yield item(Text(f"all are compiled (see the resources); which is fastest is {NEEDS_DEVICE}"))
        else:
            yield from _kind(kind, all_of_it=all_of_it)


def _kind(kind: Open, *, all_of_it: bool) -> Iterator[RenderableType]:
    for each in capped(kind.choices, MOST, all_of_it=all_of_it):
        lines = f"  {fmt.one_line(lines_text(each.lines), 60)}" if each.lines else ""
        head = fmt.one_line(f"{each.graph} {each.stage}: {each.subject}", 120)
        yield item(Text.assemble((head, "bold"), (lines, "dim")))
        taken = each.taken or ("all of them" if each.kind == "configuration" else "not known")
        yield hanging(f"generated: {taken}; which is fastest is {NEEDS_DEVICE}")
        if each.candidates:
            yield from (hanging(line, "dim") for line in _candidates(each, all_of_it=all_of_it))
    if not all_of_it:
        yield from more(len(kind.choices), "choice", "--all")


def _candidates(each: Undecided, *, all_of_it: bool) -> Iterator[str]:
    """List the first candidates on one line, or each candidate on its own line, without the settings that all share."""
    same = _same(each.candidates)
    candidates = [_candidate(one, each.subject, same) for one in each.candidates]
    number = fmt.count(len(candidates), "candidate")
    if all_of_it and len(candidates) > 1:
        yield f"{number}, Inductor's all with {' '.join(same)}:" if same else f"{number}:"
        yield from candidates
    else:
        yield f"{number}: {fmt.listed(candidates, _CANDIDATES)}"


def _same(candidates: tuple[TimedCandidate, ...]) -> tuple[str, ...]:
    """Return the settings that all configured candidates share; none if there are fewer than two."""
    # Library kernels have no settings.
    settings = [one.configuration.split(", ") for one in candidates if one.configuration]
    if len(settings) < 2:
        return ()
    return tuple(each for each in settings[0] if all(each in other for other in settings))


def _candidate(one: TimedCandidate, subject: str, same: tuple[str, ...]) -> str:
    configuration = " ".join(each for each in one.configuration.split(", ") if each not in same)
    # The line above has the name already.
    if one.name == subject and configuration:
        return configuration
    if configuration:
        return f"{one.name} ({configuration})"
    return one.name


# Chosen: as many as the table of kernels shows.
_ROWS = 12
_LAUNCH = 1e-6
"""Seconds that every launch takes at least: CUDA needs a few microseconds, so a smaller bound decides nothing."""
_COLUMNS = ("kernel", ">calls", ">bytes", ">FLOPs", ">FLOP/B", ">bound", "set by")
_SHORT = {"memory": "memory", "arithmetic": "FLOPs"}


def bounds_screen(
    gpu: Gpu, parts: Sequence[PartLeast], width: int, *, all_of_it: bool = False
) -> Iterator[RenderableType]:
    """Show the lower bounds of graph parts on the target GPU."""
    if not parts:
        return
    yield section(f"Lower bounds on run time on {fmt.one_line(gpu.target, 30)}, computed; times {NEEDS_DEVICE}")
    shown = {id(part): capped(part.kernels, _ROWS, all_of_it=all_of_it) for part in parts}
    rows: list[tuple[str, ...]] = []
    for part in parts:
        if len(parts) > 1:
            rows.append((f"{part.graph} {part.stage}:", *([""] * (len(_COLUMNS) - 1))))
        rows += [_row(each, width) for each in shown[id(part)]]
    yield columned(width, _COLUMNS, rows)
    left = sum(len(part.kernels) - len(shown[id(part)]) for part in parts)
    yield from more(left, "kernel", "--all", most=0, before="")
    for part in parts:
        yield _sum(part)
    if any(each.seconds is not None and each.seconds < _LAUNCH for part in parts for each in part.kernels):
        yield Text("Launching a kernel takes longer than a bound below 1 µs: the launch decides there.", style="dim")
    yield from _notes(gpu, parts)


def _row(each: Least, width: int) -> tuple[str, ...]:
    work = each.row.work
    sets = each.sets if width >= WIDE else [_SHORT[one] for one in each.sets]
    amounts = memory(work.bytes), fmt.known(work.flops, fmt.scaled), fmt.known(work.intensity, fmt.intensity)
    name, calls = fmt.one_line(each.row.label), str(each.row.kernel.calls)
    return name, calls, *amounts, least_text(each.seconds) or UNKNOWN, ", ".join(sets)


def _sum(part: PartLeast) -> Text:
    name = fmt.one_line(f"{part.graph} {part.stage}")
    if part.seconds is None:
        return Text(f"{name}: bound not known", style="dim")
    left = fmt.framed(", not counting ", fmt.some(part.unknown, "kernel"), " without a known bound")
    return Text(f"{name}: at least {least_text(part.seconds)} with cold caches{left}")


def _notes(gpu: Gpu, parts: Sequence[PartLeast]) -> Iterator[RenderableType]:
    """Show the peaks behind the bounds, their sources, and why a kernel can beat its bound."""
    speed = fmt.framed("", fmt.known(gpu.bandwidth, fmt.gigabytes, ""), " memory bandwidth") or "bandwidth not known"
    rates = ", ".join(f"{rate / 1e12:.1f} TFLOP/s" for rate in peaks(tuple(parts)))
    arithmetic = fmt.framed("", rates, " arithmetic") or "arithmetic rate not known"
    yield Text(f"Peaks: {speed}, {arithmetic}{sources_text(gpu)}", style="dim")
    cache = fmt.framed("its L2 cache (", fmt.known(gpu.l2, fmt.memory, ""), ")") or "a cache"
    yield Text(f"A kernel whose data is already in {cache} can be faster than its memory bound.", style="dim")


def sources_text(gpu: Gpu) -> str:
    """Name the sources of the peaks, each once."""
    known = list(
        dict.fromkeys(gpu.sources[name] for name in ("bandwidth", "rates", "vector_rates") if name in gpu.sources)
    )
    if known:
        return f" (source: {fmt.one_line('; '.join(known), 200)})"
    return f" (see ctrace targets {gpu.target})"
