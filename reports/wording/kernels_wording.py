"""Describe kernels: short names, source lines, fused ops, resources, and code annotated with source lines.

Bounds and spills of a run with `--target`, in short sentences for screens and Markdown.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ctrace.inspector.facts.built import Built
from ctrace.inspector.facts.fusion_facts import Buffer, Node
from ctrace.inspector.facts.kernel_facts import Kernel
from ctrace.inspector.findings.kernels.at_line import passages
from ctrace.inspector.findings.kernels.built_view import Resources
from ctrace.inspector.findings.kernels.kernel_view import KernelOfPart, Work
from ctrace.inspector.findings.target_gpu_view import TargetDevice
from ctrace.inspector.knowledge.counting import named, plural
from ctrace.inspector.session.summary import CodeTotals
from ctrace.inspector.source.text import python_lines
from ctrace.reports import format as fmt

UNKNOWN = "?"
# Chosen: a column of the table of kernels.
_LINES = 4
# Chosen: where there is room, for one kernel; tables cut further.
_OPS = 6
_FILE = 4
"""The fewest letters of a file name that are worth showing."""
_PLACE = 30
"""The longest path to show, in letters; of a longer path, only the file name is shown."""
_NUMBER = re.compile(r"_\d+$")
_COMMENT = {"cpp": "//"}
"""Everything else is Python."""
COMMENTS = {"llir": ";"}
"""Comment prefix of a stage of a kernel's code, if it is not `//`."""


def short_names(rooms: Mapping[str, int]) -> dict[str, str]:
    """Cut names in the middle to fit; different names stay different, and keep the number at the end."""
    full = {name: fmt.one_line(name) for name in rooms}
    ends = [len(found[0]) for name in full.values() if (found := _NUMBER.search(name))]
    # The end of a name has its number; where that is not enough, more letters of the end tell names apart.
    for tail in range(max(ends, default=0), max(rooms.values(), default=0) - 1):
        cut = {name: _cut(shown, rooms[name], tail) for name, shown in full.items()}
        if len(set(cut.values())) == len(set(full.values())):
            return cut
    return full


def _cut(text: str, room: int, tail: int) -> str:
    kept = max(room - 1 - tail, 1)
    if len(text) <= room:
        return text
    return f"{text[:kept]}…{text[len(text) - tail :]}"


def ops_text(ops: Iterable[str], most: int = _OPS) -> str:
    """Write `amax, exp, sub, and 2 more`."""
    return fmt.one_line(fmt.listed(dict.fromkeys(map(fmt.short_op, ops)), most))


def lines_text(places: Iterable[str], known: str = "") -> str:
    """Write `file.py:27,28,30`, the file with the most lines first; other files are counted.

    If all lines are in the `known` file, leave its name out.
    """
    by_file: dict[str, set[int]] = {}
    for where in places:
        file, _, line = where.rpartition(":")
        by_file.setdefault(file, set()).add(int(line))
    if not by_file:
        return "not known"
    file, lines = max(by_file.items(), key=lambda item: len(item[1]))
    numbers = ",".join(map(str, sorted(lines)[:_LINES]))
    if len(lines) > _LINES:
        numbers += "…"
    if list(by_file) == [known]:
        return numbers
    return f"{fmt.file_name(file)}:{numbers}{fmt.framed(' and ', fmt.some(len(by_file) - 1, 'other file'))}"


def cut_lines(text: str, room: int) -> str:
    """Cut the result of `lines_text`, but keep the first number: `sdpa_atten…:81…`."""
    file, colon, numbers = text.rpartition(":")
    if len(text) <= room or not colon:
        return fmt.one_line(text, room)
    first = numbers.partition(",")[0].partition(" ")[0]
    # First with all numbers, then with one: a line that can be looked up is worth more than the file's whole name.
    for shown in (numbers, numbers if first == numbers else f"{first}…"):
        left = room - len(shown) - 2
        if left >= _FILE:
            return f"{file[:left]}…:{shown}"
    return fmt.one_line(text, room)


def nodes_text(nodes: Sequence[Node], whole: int = 0) -> str:
    """Write `4 nodes: amax, exp, sub, sum`; with a `whole`, `2 of 4 nodes: exp, sub`."""
    if not nodes:
        return "not known"
    ops = ops_text(op for node in nodes for op in node.ops)
    number = f"{len(nodes)} of {whole} nodes" if whole else fmt.count(len(nodes), "node")
    return fmt.joined(": ", number, ops)


def kernel_ops_text(kernel: Kernel, most: int = _OPS) -> str:
    """Write the aten ops of a kernel; a user-written kernel has none."""
    return ops_text(kernel.ops, most) or ("none" if kernel.user else UNKNOWN)


def fused_text(row: KernelOfPart) -> str:
    """Write `4 nodes: amax, exp, sub, sum`, and whether anything was fused."""
    return nodes_text(row.nodes) + (" (nothing was fused)" if row.nodes and not row.is_fused else "")


def sorted_places(places: Iterable[str]) -> list[str]:
    """Order `file:line` by file and line."""
    split = (place.rpartition(":") for place in set(places))
    return [f"{file}:{line}" for file, line in sorted((file, int(line)) for file, _, line in split)]


def buffer_text(buffer: Buffer) -> str:
    """Write `f32[64, 128]`."""
    return fmt.tensor(buffer.dtype, buffer.shape)


def outputs_text(row: KernelOfPart, most: int = 1) -> str:
    """List the shapes that a kernel writes, each once, the largest first: `f32[64, 128] +2`."""
    # The largest output is most of what a kernel writes.
    largest = sorted(row.outputs, key=lambda buffer: -(buffer.bytes or 0))
    shapes = list(dict.fromkeys(map(buffer_text, largest)))
    more = max(len(shapes) - most, 0) or None
    return f"{', '.join(shapes[:most]) or UNKNOWN}{fmt.framed(' +', more)}"


def work_text(work: Work, *, ratio: bool = True) -> str:
    """Write `reads 4.0 MiB, writes 2.0 MiB, 2.1 GFLOP, 0.3 FLOP/B`; name what is not known.

    Without `ratio`, leave out FLOP/B: bytes and FLOPs may come from different kernels.
    """
    if work.read is None and work.written is None and work.flops is None:
        return "bytes and FLOPs not known"
    parts = ["bytes not known" if work.bytes is None else f"reads {memory(work.read)}, writes {memory(work.written)}"]
    parts.append(fmt.known(work.flops, fmt.flops, "FLOPs not known"))
    if ratio and work.intensity is not None:
        parts.append(f"{fmt.intensity(work.intensity)} FLOP/B")
    return ", ".join(parts)


def memory(size: int | None) -> str:
    """Write bytes, or `?` if not known."""
    return fmt.known(size, fmt.memory, UNKNOWN)


def language(kernel: Kernel) -> str:
    """Name a kernel's language, and whether the user wrote it."""
    return fmt.one_line(f"{kernel.language}, yours" if kernel.user else kernel.language)


def place_text(place: str, listings: Mapping[str, str], cwd: str) -> str:
    """Write `model.py:31 exponentials = torch.exp(scores)`; write only the place if the source is not known."""
    file, _, line = place.rpartition(":")
    where = fmt.place(file, None, cwd)
    short = where if len(where) <= _PLACE else fmt.file_name(file)
    return f"{short}:{fmt.one_line(line)}  {fmt.one_line(source_line(place, listings))}".rstrip()


def source_line(place: str, listings: Mapping[str, str]) -> str:
    """Return a source line; empty if its file is not in the log."""
    file, _, line = place.rpartition(":")
    lines = python_lines(listings.get(file, ""))
    if line.isdecimal() and 0 < int(line) <= len(lines):
        return lines[int(line) - 1]
    return ""


def source_text(kernel: Kernel, listings: Mapping[str, str], cwd: str) -> str:
    """Write a kernel's code, with a comment above each passage that shows its source lines.

    Without those comments, the text is exactly what torch generated.
    """
    mark = _COMMENT.get(kernel.language, "#")
    text: list[str] = []
    for passage in passages(kernel):
        if passage.places is not None:
            first = next((line for line in passage.text if line.strip()), "")
            indent = first[: len(first) - len(first.lstrip())]
            known = [_comment(place_text(place, listings, cwd)) for place in passage.places]
            text += [f"{indent}{mark} ── {line}" for line in known or ["no source line known"]]
        text += passage.text
    return fmt.plain("\n".join(text))


def _comment(text: str) -> str:
    """Cut text before a backslash or three quotes, which could end the comment or string that holds the code."""
    end = min((at for part in ("\\", "'''", '"""') if (at := text.find(part)) >= 0), default=None)
    if end is None:
        return text
    return f"{text[:end].rstrip()} …"


def configuration_text(built: Built, *, short: bool = False, unused: bool = False) -> str:
    """Write `4 warps 1 stage XBLOCK=512`, or in short `4w 1s XBLOCK=512`."""
    sizes = " ".join(f"{fmt.one_line(name, 20)}={size}" for name, size in built.blocks.items())
    limit = built.register_limit
    if short:
        parts = [f"{built.warps}w", f"{built.stages}s", sizes, fmt.framed("≤", limit, "r")]
    else:
        registers = fmt.known(limit, lambda number: f"at most {fmt.count(number, 'register')}", "")
        parts = [fmt.count(built.warps, "warp"), fmt.count(built.stages, "stage"), sizes, registers]
    if unused:
        parts.insert(0, "unused:")
    return fmt.joined(" ", *parts)


def resources_text(each: Resources) -> str:
    """Write `4 warps 1 stage XBLOCK=1: 32 registers, 0 spills, 16 blocks per SM (100% occupancy)`."""
    built, occupancy = each.built, each.occupancy
    shared = fmt.known(built.shared, lambda size: f"{fmt.memory(size)} of shared memory", "shared memory not known")
    parts = [_counted(built.registers, "register"), _counted(built.spills, "spill"), shared]
    if occupancy is not None:
        parts.append(f"{fmt.count(occupancy.blocks, 'block')} per SM ({occupancy.share:.0%} occupancy)")
    return f"{configuration_text(built, unused=each.unused)}: {', '.join(parts)}"


def _counted(number: int | None, noun: str) -> str:
    if number is None:
        return f"{plural(noun)} not known"
    return f"{number} {named(number, noun)}"


def least_text(seconds: float | None) -> str:
    """Write a bound, `12.3 µs` or `240.0 ns`; empty if it is not known."""
    if seconds is None:
        return ""
    # A bound of `0.0 ns` would say that the kernel takes no time.
    if 0 < seconds < 0.05e-9:
        return "under 0.1 ns"
    if seconds >= 1e-6:
        return fmt.microseconds(seconds * 1e6)
    return f"{seconds * 1e9:.1f} ns"


def languages_text(found: CodeTotals) -> str:
    """Count kernels by language: `3 triton, 1 external`."""
    return ", ".join(f"{number} {language}" for language, number in found.languages.items())


def kernel_facts(device: TargetDevice | None, found: CodeTotals) -> Iterator[str]:
    """Summarize bounds and spills of the kernels; write nothing for a run without `--target`."""
    if device is None or not found.languages:
        return
    if found.least is not None:
        how = "computed from bytes and FLOPs, with cold caches; times not measured"
        name = fmt.one_line(device.gpu.target, 30)
        yield f"at least {least_text(found.least)} on {name} for one run of each graph part: {how}"
    yield spills_text(found)


def spills_text(found: CodeTotals) -> str:
    """Say how many compiled kernels spill registers: `1 of 3 compiled kernels spills registers`."""
    if not found.compiled:
        return "spills not known: Triton compiled no kernel"
    if found.compiled == 1:
        return f"the one compiled kernel spills {'' if found.spilling else 'no '}registers"
    # `none` takes the verb of one.
    verb = named(max(found.spilling, 1), "spills", "spill")
    return f"{found.spilling or 'none'} of {fmt.count(found.compiled, 'compiled kernel')} {verb} registers"
