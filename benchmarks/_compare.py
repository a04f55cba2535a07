"""Compare the kernels of a run on a GPU with those that `--target` emitted for it, from the two saved runs."""

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ctrace.inspector.facts.built import Built
from ctrace.inspector.facts.kernel_facts import Kernel
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.kernels.built_view import text_of

Part = tuple[str, str]
"""Graph and stage."""

_ASIDE = (
    # A hash of Triton's own files and its compiler (torch/utils/_triton.py: `triton_hash_with_backend`).
    re.compile(r"(?<='backend_hash': ')[0-9A-F]*(?=')"),
    # Inductor's cache, with folders named by user and hash.
    re.compile(r"/[^\s'\"]*/torchinductor[^\s'\"]*"),
)
_DEBUG_LINE = re.compile(r"\s*(\.loc\b|\.file\b|\$L__(tmp|func_begin|func_end|info)\w*:|//)")
_FILE_OF_ASSERT = re.compile(r"(?<=\bassertFile_)(\d+)\[\d+\] = \{[^}]*\}")
"""The path of the kernel's file in Inductor's cache, used in the message of an assertion."""
_DEBUG_SECTION = re.compile(r"\s*\.section\s+\.debug")
_EMPTY = re.compile(r"\s*([{}]\s*)?$")
_LONGEST_DIFF = 12
_MOST_CHOICES = 3
_OF_ONE_KERNEL = "configuration"
"""Kind of an undecided choice between configurations of a kernel with the same source."""


@dataclass(frozen=True)
class Share:
    """The number of equal items among the compared ones."""

    equal: int = 0
    compared: int = 0
    missing: int = 0
    """Items that only one side has."""

    def __add__(self, other: "Share") -> "Share":
        return Share(self.equal + other.equal, self.compared + other.compared, self.missing + other.missing)

    def __str__(self) -> str:
        share = f"{self.equal}/{self.compared}" if self.compared else "not measured"
        return f"{share} ({self.missing} missing)" if self.missing else share


@dataclass(frozen=True)
class Difference:
    """A difference, and its cause if the two runs show it."""

    part: str
    kernel: str
    what: str
    why: str = ""
    diff: str = ""


@dataclass(frozen=True)
class Comparison:
    """The result of comparing two runs."""

    parts: int = 0
    sources: Share = Share()
    """Sources of the generated kernels of either side."""
    hashes: int = 0
    """Kernels that are equal only if hashes are ignored."""
    ptx: Share = Share()
    """PTX of the configurations of kernels with equal sources."""
    resources: Share = Share()
    differences: tuple[Difference, ...] = ()


def compared(real: Session, virtual: Session) -> Comparison:
    """Compare a run on the GPU (`real`, with `--build`) with the kernels emitted for it elsewhere."""
    theirs, ours = _by_part(real), _by_part(virtual)
    whole = Comparison()
    for part in dict.fromkeys((*theirs, *ours)):
        found = _Part(part, theirs.get(part, []), ours.get(part, [])).compared(real.built, virtual)
        whole = Comparison(
            parts=whole.parts + 1,
            sources=whole.sources + found.sources,
            hashes=whole.hashes + found.hashes,
            ptx=whole.ptx + found.ptx,
            resources=whole.resources + found.resources,
            differences=whole.differences + found.differences,
        )
    return whole


def _by_part(session: Session) -> dict[Part, list[Kernel]]:
    parts: dict[Part, list[Kernel]] = {}
    for kernel in session.kernels:
        parts.setdefault((kernel.graph, kernel.stage), []).append(kernel)
    return parts


@dataclass(frozen=True)
class _Part:
    """One compiled part of a graph, in both runs."""

    part: Part
    real: list[Kernel]
    virtual: list[Kernel]

    def compared(self, built: Iterable[Built], virtual: Session) -> Comparison:
        theirs, ours = (_generated(side) for side in (self.real, self.virtual))
        names = list(dict.fromkeys((*theirs, *ours)))
        equal = [name for name in names if name in theirs and name in ours and _same(theirs[name], ours[name])]
        differences = list(self._differences(names, equal, theirs, ours, virtual))
        ptx, resources = Share(), Share()
        for name in equal:
            at, bt, found = self._configurations(name, built, virtual.built)
            ptx, resources = ptx + at, resources + bt
            differences += found
        hashes = sum(theirs[name] != ours[name] for name in equal)
        return Comparison(1, Share(len(equal), len(names)), hashes, ptx, resources, tuple(differences))

    def _named(self, kernel: str, what: str, why: str = "", diff: str = "") -> Difference:
        return Difference(" ".join(self.part), kernel, what, why, diff)

    def _differences(
        self, names: list[str], equal: list[str], theirs: dict[str, str], ours: dict[str, str], virtual: Session
    ) -> Iterator[Difference]:
        libraries = _libraries(self.real, self.virtual)
        if libraries:
            yield self._named("", "other calls of libraries", self._undecided(virtual), libraries)
        if len(equal) == len(names) and list(theirs) != list(ours):
            yield self._named("", "another order of kernels", self._undecided(virtual), _diff(theirs, ours))
        for name in names:
            if name in equal:
                continue
            sides = (name in theirs, name in ours)
            what = {(True, True): "other source", (True, False): "only on the GPU"}.get(sides, "only emitted")
            diff = _diff(theirs[name].splitlines(), ours[name].splitlines()) if all(sides) else ""
            why = "the part calls other functions of libraries" if libraries else self._undecided(virtual)
            yield self._named(name, what, why, diff)

    def _undecided(self, virtual: Session) -> str:
        """List the choices that could change the part's code, and the ops that only one side has."""
        choices = [
            f"undecided {each.kind}: {each.subject}, taken {each.taken}"
            for each in virtual.undecided
            if (each.graph, each.stage) == self.part and each.kind != _OF_ONE_KERNEL
        ]
        theirs, ours = ({op for kernel in side for op in kernel.ops} for side in (self.real, self.virtual))
        sides = {"only the GPU has": theirs - ours, "only emitted code has": ours - theirs}
        ops = [f"{who} {', '.join(sorted(found))}" for who, found in sides.items() if found]
        return "; ".join([*ops, *choices[:_MOST_CHOICES]])

    def _configurations(
        self, name: str, theirs: Iterable[Built], ours: Iterable[Built]
    ) -> tuple[Share, Share, list[Difference]]:
        """Compare each configuration that was built on the GPU with the same one compiled elsewhere."""
        ptx, resources, found = Share(), Share(), []
        compiled = {_configuration(each): each for each in self._of(name, ours)}
        for built in self._of(name, theirs):
            twin = compiled.pop(_configuration(built), None)
            if twin is None:
                found.append(self._named(name, "configuration only on the GPU", _name(built)))
            at, diff = _ptx(built, twin)
            bt, figures = _resources(built, twin)
            ptx, resources = ptx + at, resources + bt
            if at.compared > at.equal:
                found.append(self._named(name, "other PTX", _name(built), diff))
            if bt.compared > bt.equal:
                found.append(self._named(name, "other resources", f"{_name(built)}: {figures}"))
        found += [self._named(name, "configuration only emitted", _name(each)) for each in compiled.values()]
        if not resources.compared and not resources.missing:
            return Share(missing=1), Share(missing=1), found
        return ptx, resources, found

    def _of(self, name: str, built: Iterable[Built]) -> list[Built]:
        return [each for each in built if (each.graph, each.stage, each.kernel) == (*self.part, name)]


def _generated(kernels: list[Kernel]) -> dict[str, str]:
    """Return the source of each kernel that torch generated, in call order."""
    return {each.name: each.source for each in kernels if each.language != "external"}


def _libraries(theirs: list[Kernel], ours: list[Kernel]) -> str:
    calls = [[f"{each.name} ×{each.calls}" for each in side if each.language == "external"] for side in (theirs, ours)]
    return _diff(*calls) if calls[0] != calls[1] else ""


def _same(one: str, other: str) -> bool:
    return bool(one) and _put_aside(one) == _put_aside(other)


def _put_aside(source: str) -> str:
    for hashes in _ASIDE:
        source = hashes.sub("", source)
    return source


def _configuration(built: Built) -> tuple[object, ...]:
    return built.warps, built.stages, tuple(sorted(built.blocks.items()))


def _name(built: Built) -> str:
    blocks = ", ".join(f"{name}={size}" for name, size in built.blocks.items())
    return f"{blocks or 'no block'}, {built.warps} warps, {built.stages} stages"


def _ptx(built: Built, twin: Built | None) -> tuple[Share, str]:
    """Compare PTX, which a log keeps only for launched configurations."""
    if "ptx" not in built.ir:
        return Share(), ""
    theirs = text_of(built.ir["ptx"])
    ours = text_of(twin.ir["ptx"]) if twin is not None and "ptx" in twin.ir else None
    if theirs is None or ours is None:
        return Share(missing=1), ""
    lines = [without_debugging(text) for text in (theirs, ours)]
    return Share(int(lines[0] == lines[1]), 1), _diff(*lines)


def without_debugging(ptx: str) -> list[str]:
    """Return the lines of a kernel's PTX without debug information."""
    kept: list[str] = []
    inside = False
    for line in ptx.splitlines():
        inside = inside or bool(_DEBUG_SECTION.match(line))
        if not inside and not _DEBUG_LINE.match(line) and not _EMPTY.fullmatch(line):
            kept.append(_FILE_OF_ASSERT.sub(r"\1", line.split("//")[0].rstrip()))
        inside = inside and not line.strip().startswith("}")
    return kept


def _resources(built: Built, twin: Built | None) -> tuple[Share, str]:
    theirs = {"registers": built.registers, "spills": built.spills, "shared": built.shared}
    if twin is None or None in theirs.values():
        return Share(missing=1), ""
    ours = {"registers": twin.registers, "spills": twin.spills, "shared": twin.shared}
    other = [f"{name} {value} against {ours[name]}" for name, value in theirs.items() if value != ours[name]]
    return Share(int(not other), 1), ", ".join(other)


def _diff(theirs: Iterable[str], ours: Iterable[str]) -> str:
    lines = list(difflib.unified_diff(list(theirs), list(ours), "GPU", "emitted", lineterm="", n=0))[2:]
    changed = [line for line in lines if not line.startswith("@@")]
    more = [f"({len(changed) - _LONGEST_DIFF} lines more)"] if len(changed) > _LONGEST_DIFF else []
    return "\n".join([*changed[:_LONGEST_DIFF], *more])
