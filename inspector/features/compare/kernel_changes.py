"""Compare the kernels of matched graphs: source, registers and bytes, without names and hashes."""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.built import Built
from ctrace.inspector.facts.kernels import Kernel, Stage
from ctrace.inspector.facts.wire import titled
from ctrace.inspector.features.compare.changes import Change, ChangeKind, What, edited
from ctrace.inspector.features.compare.graph_changes import Pairs, RunGraph
from ctrace.inspector.findings.kernels.kernel_view import label_of
from ctrace.inspector.findings.site_matching import paired
from ctrace.inspector.knowledge.counting import count

_NAME = re.compile(r"\b(?:triton|cpp)_(?:[a-z]+_)?fused_\w+")
"""The names of generated kernels, which contain ops and a number (2.13, _inductor/codegen/triton.py and cpp.py)."""
_HASH = re.compile(r"\b[0-9A-Fa-f]{32,}\b|\b[0-9A-Z]{40,}\b|\bc[a-z2-7]{50,}\b")
_PATH = re.compile(r"""(?<=["'])(?:/[^"'\s]+/)([^"'/\s]+)(?=["'])""")
_COMMENT = re.compile(r"^\s*(?:#|//)(?!\s*(?:include|pragma|if|else|endif|define|undef)).*$")
_BYTES = "bytes"
_MOST_LINES = 200
"""Longest source diff that a change keeps."""


class KernelSeen(Struct, frozen=True):
    """A kernel of one run, and the facts that are compared."""

    kernel: Kernel
    source: tuple[str, ...]
    """The source without names, hashes, paths and comments."""
    facts: dict[str, int]
    """Numbers by name: bytes, calls, registers."""

    @property
    def name(self) -> str:
        """The name of a library function; empty for a generated kernel, whose name says nothing about its content."""
        if self.source:
            return ""
        return self.kernel.name


_ALIKE: tuple[Callable[[KernelSeen], Hashable], ...] = (
    lambda each: (each.kernel.language, each.source, each.name, tuple(each.facts.items())),
    lambda each: (each.kernel.language, each.source, each.name),
    lambda each: (each.kernel.language, each.name, each.kernel.ops),
    lambda each: (each.kernel.language, each.name, each.kernel.lines or id(each)),
)
"""What two matched kernels share, the closest match first."""


class KernelChanges(Struct, frozen=True):
    """How the kernels of two runs differ."""

    changes: tuple[Change, ...]
    resized: dict[str, tuple["KernelPair", ...]]
    """Kernels that differ in nothing but their bytes, because sizes differ; by the id of the later graph."""


KernelPair = tuple[KernelSeen, KernelSeen]


def kernel_changes(pairs: Pairs) -> KernelChanges:
    """Compare the kernels of matched graphs."""
    moved = Moved(_elsewhere(pairs.gone), _elsewhere(pairs.new))
    changes, resized = list[Change](), dict[str, tuple[KernelPair, ...]]()
    for old, new in pairs.both:
        sizes: list[KernelPair] = []
        for stage in Stage:
            olds, news = list(_kernels(old, stage)), list(_kernels(new, stage))
            changes += _between(olds, news, f"{new.where} {stage}", moved, sizes)
        if sizes:
            resized[new.graph.id] = tuple(sizes)
    return KernelChanges(tuple(changes), resized)


def follow_up(resized: tuple[KernelPair, ...]) -> tuple[str, ...]:
    """Describe kernels of which only the bytes differ: a summary, then a line for each."""
    was, now = (_sum(pair[at] for pair in resized) for at in (0, 1))
    each = (f"{_text(old, ())}: {old.facts[_BYTES]:,} bytes, then {new.facts[_BYTES]:,}" for old, new in resized)
    return f"{_equal(resized)}: {was:,}, then {now:,}", *each


def resized_changes(pairs: Pairs, left: Container[str], found: KernelChanges) -> Iterator[Change]:
    """Yield one change for each graph in `left` whose kernels differ only in bytes: torch compiled it with other sizes
    of dynamic dimensions.
    """
    for _, new in pairs.both:
        if new.graph.id in left:
            resized = found.resized[new.graph.id]
            was, now = (f"{_equal(resized)}: {_sum(pair[at] for pair in resized):,}" for at in (0, 1))
            yield replace(edited(What.KERNEL, new.where, was, now), follows=follow_up(resized))


def _equal(resized: tuple[KernelPair, ...]) -> str:
    return f"{count(len(resized), 'kernel')}, equal but for bytes"


def _sum(kernels: Iterable[KernelSeen]) -> int:
    return sum(each.facts[_BYTES] for each in kernels)


class Moved(Struct, frozen=True):
    """The generated kernels of graphs that only one run has: a new break moves kernels, and does not remove them."""

    gone: Counter[Hashable]
    new: Counter[Hashable]


def _elsewhere(graphs: Iterable[RunGraph]) -> Counter[Hashable]:
    found: Counter[Hashable] = Counter()
    for seen in graphs:
        found.update(_content(each) for stage in Stage for each in _kernels(seen, stage))
    return found


def _content(each: KernelSeen) -> Hashable:
    return each.kernel.language, each.source


def _take(found: Counter[Hashable], each: KernelSeen) -> bool:
    """Whether a kernel is among those of other graphs, each of which counts once."""
    is_there = bool(each.source) and found[_content(each)] > 0
    found[_content(each)] -= is_there
    return is_there


def _kernels(seen: RunGraph, stage: Stage) -> Iterator[KernelSeen]:
    for kernel in seen.session.kernels:
        if (kernel.graph, kernel.stage) == (seen.graph.id, stage):
            yield KernelSeen(kernel, without_names(kernel.source), _facts(seen, kernel))


def _facts(seen: RunGraph, kernel: Kernel) -> dict[str, int]:
    found = {"calls": kernel.calls}
    read = [launch.read for launch in kernel.launches if launch.read is not None]
    written = [launch.written for launch in kernel.launches if launch.written is not None]
    if len(read) == len(written) == len(kernel.launches) > 0:
        found |= {_BYTES: sum(read) + sum(written)}
    made = _built(seen, kernel)
    if made is not None:
        found |= {title: number for title, number in titled(made).items() if number is not None}
    return found


def _built(seen: RunGraph, kernel: Kernel) -> Built | None:
    """Return how a kernel was compiled, if torch launches one configuration of it."""
    made = [
        each
        for each in seen.session.built
        if (each.graph, each.stage, each.kernel) == (kernel.graph, kernel.stage, kernel.name)
    ]
    chosen = [each for each in made if each.chosen] or made
    if len(chosen) == 1:
        return chosen[0]
    return None


def without_names(source: str) -> tuple[str, ...]:
    """Return a kernel's source line by line, without generated names, hashes, folders, comments and empty lines."""
    lines = (line.rstrip() for line in source.split("\n") if not _COMMENT.match(line))
    return tuple(_PATH.sub(r"\1", _HASH.sub("#", _NAME.sub("kernel", line))) for line in lines if line)


def _between(
    olds: list[KernelSeen], news: list[KernelSeen], where: str, moved: Moved, resized: list[KernelPair]
) -> Iterator[Change]:
    """Yield the differences of two lists of kernels, and add those that differ only in bytes to `resized`."""
    both: list[KernelPair] = []
    for same in _ALIKE:
        found, news, olds = paired(news, olds, same)
        both += [(old, new) for new, old in found]
    olds = [each for each in olds if not _take(moved.new, each)]
    news = [each for each in news if not _take(moved.gone, each)]
    near, olds, news = _nearest(olds, news)
    for old, new in (*both, *near):
        if old.source == new.source and _differing(old, new) == (_BYTES,):
            resized.append((old, new))
        else:
            yield from _compared(old, new, where)
    for old in olds:
        yield Change(What.KERNEL, ChangeKind.REMOVED, where, was=_text(old, tuple(old.facts)))
    for new in news:
        yield Change(What.KERNEL, ChangeKind.ADDED, where, now=_text(new, tuple(new.facts)))


def _nearest(
    olds: list[KernelSeen], news: list[KernelSeen]
) -> tuple[list[tuple[KernelSeen, KernelSeen]], list[KernelSeen], list[KernelSeen]]:
    """Pair generated kernels that share ops; return the pairs and the rest."""
    pairs, left = [], []
    news = list(news)
    for old in olds:
        shared = [(len(_ops(old) & _ops(new)), -at) for at, new in enumerate(news) if _is_like(old, new)]
        most, at = max(shared, default=(0, 0))
        if most:
            pairs.append((old, news.pop(-at)))
        else:
            left.append(old)
    return pairs, left, news


def _is_like(old: KernelSeen, new: KernelSeen) -> bool:
    return bool(old.source) and old.kernel.language == new.kernel.language


def _ops(seen: KernelSeen) -> set[str]:
    return set(seen.kernel.ops)


def _compared(old: KernelSeen, new: KernelSeen, where: str) -> Iterator[Change]:
    other = _differing(old, new)
    if old.source == new.source and not other:
        return
    lines = difflib.unified_diff(old.source, new.source, old.kernel.name, new.kernel.name, lineterm="", n=1)
    detail = tuple(line for line, _ in zip(lines, range(_MOST_LINES), strict=False))
    yield edited(What.KERNEL, where, _text(old, other), _text(new, other), detail)


def _differing(old: KernelSeen, new: KernelSeen) -> tuple[str, ...]:
    return tuple(name for name in old.facts if name in new.facts and old.facts[name] != new.facts[name])


def _text(seen: KernelSeen, facts: tuple[str, ...]) -> str:
    """Write `cpp_fused_relu_0 (aten.relu): 1,024 bytes`."""
    ops = f" ({', '.join(seen.kernel.ops)})" if seen.kernel.ops else ""
    numbers = ", ".join(f"{seen.facts[name]:,} {name}" for name in facts if name != "calls" or seen.facts[name] != 1)
    return f"{label_of(seen.kernel)}{ops}" + (f": {numbers}" if numbers else "")
