"""What an advice rule gets (`DiagnosisScene`: the Session, its root causes and their findings) and what it yields
(`Candidate`), and the installed package that a file belongs to (`package_of`).
"""

import ast
import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from msgspec import Struct

from ctrace.inspector.facts.diagnosis import Counts, Effect, Finding, RootCause, RootKind
from ctrace.inspector.facts.findings import Break, Cause, Danger, Owner, Recompile, Skip
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.trial import Trial, Tried
from ctrace.inspector.source.owners import owner_of
from ctrace.inspector.source.text import parsed, python_lines


class DiagnosisScene(Struct, frozen=True):
    """A Session with its root causes."""

    session: Session
    causes: tuple[RootCause, ...]

    def breaks(self, cause: RootCause) -> list[Break]:
        """Return the breaks of a cause."""
        return [self.session.breaks[each.index] for each in cause.symptoms if each.what is Finding.BREAK]

    def breaks_of(self, kinds: Collection[RootKind]) -> Iterator[tuple[RootCause, Break]]:
        """Yield the breaks of the causes of some kinds, each with its cause."""
        for cause in self.causes:
            if cause.kind in kinds:
                for each in self.breaks(cause):
                    yield cause, each

    def skips(self, cause: RootCause) -> list[Skip]:
        """Return the skipped functions of a cause."""
        return [self.session.skips[each.index] for each in cause.symptoms if each.what is Finding.SKIP]

    def recompiles(self, cause: RootCause) -> list[Recompile]:
        """Return the recompilations of a cause."""
        return [self.session.recompiles[each.index] for each in cause.symptoms if each.what is Finding.RECOMPILE]

    def dangers(self, cause: RootCause) -> list[Danger]:
        """Return the wrong results of a cause."""
        return [self.session.dangers[each.index] for each in cause.symptoms if each.what is Finding.DANGER]

    def guards(self, cause: RootCause) -> Iterator[Cause]:
        """Yield the causes of a root cause's recompilations."""
        for each in self.recompiles(cause):
            yield from each.causes

    def tried(self, trial: Trial | None) -> Tried | None:
        """Return the result of a trial, or None if the trial did not run."""
        return next((each for each in self.session.trials if each.trial == trial), None)

    def effect(self, trial: Trial) -> Effect | None:
        """Return what a trial changed, or None if it did not run, or failed."""
        tried = self.tried(trial)
        if tried is None or tried.counts is None:
            return None
        return Effect(counts(self.session), tried.counts)

    def new_breaks(self, tried: Tried) -> tuple[str, ...]:
        """Return the places of a trial's graph breaks at which the run has none, such as `/home/me/net.py:8`."""
        before = {line for each in self.session.breaks for line in lines_of(each)}
        return tuple(line for line in tried.breaks if line not in before)

    def is_users(self, file: str | None) -> bool:
        """Whether the user can edit a file."""
        return file is not None and owner_of(file, self.session.environment.prefixes) is Owner.USER

    def line(self, file: str, line: int) -> str:
        """Return a source line with its indentation; empty if the text is not known."""
        lines = python_lines(self.session.listings.get(file, ""))
        if 0 < line <= len(lines):
            return lines[line - 1]
        return ""

    def torch_name(self, file: str) -> str:
        """Return the name under which a file imports torch at its top; empty if the file does not."""
        tree = parsed(self.session.listings.get(file, ""))
        if tree is None:
            return ""
        for node in tree.body:
            if not isinstance(node, ast.Import):
                continue
            for alias in node.names:
                # `import torch.nn` binds `torch`, `import torch.nn as nn` does not.
                if alias.name == "torch" or (alias.name.startswith("torch.") and alias.asname is None):
                    return alias.asname or "torch"
        return ""


def short_place(place: str) -> str:
    """Shorten `/home/me/net.py:8` to `net.py:8`."""
    return place.replace("\\", "/").rpartition("/")[2]


def lines_of(found: Break) -> Iterator[str]:
    """Yield the user's lines that lead to a break, such as `/home/me/net.py:8`."""
    yield from (f"{line.at.file}:{line.at.line}" for line in found.user_lines)


CALLS = 2
"""The calls of each scenario that a run counts; a trial makes more, for its outlook."""


def counts(session: Session) -> Counts:
    """Return the counts to compare before and after a trial: those of the first two calls of each scenario."""
    ops, compiled = session.coverage.ops, session.coverage.compiled
    coverage = None
    if ops and compiled is not None:
        coverage = round(100 * compiled / ops, 1)
    # A trial makes more calls than the run, and may only be compared in those that both make.
    later = {each.id for each in session.compilations if each.call is not None and each.call >= CALLS}
    graphs = sum(each.id not in later for each in session.graphs)
    # A break without a compilation counts: nothing says that only later calls meet it.
    breaks = sum(not each.compilations or not later.issuperset(each.compilations) for each in session.breaks)
    recompiles = sum(each.compilation not in later for each in session.recompiles)
    return Counts(graphs, breaks, recompiles, coverage)


def compile_seconds(session: Session) -> float | None:
    """Return the compile time of a run; None: not known."""
    known = [each.seconds for each in session.compilations if each.seconds is not None]
    if known:
        return round(sum(known), 3)
    return None


class Candidate(Struct, frozen=True):
    """A piece of advice, and how it can be checked."""

    text: str
    """The place, if known, and what to do there, in one or two sentences."""
    causes: tuple[str, ...]
    """Ids of the causes that it addresses."""
    trial: Trial | None = None
    worth: int = 0
    """The order of trials: the highest comes first."""
    general: bool = False
    only_checked: bool = False
    """Whether to show the candidate only if its trial helped."""
    needs_backend: bool = False
    """Whether the trial needs AOTAutograd and Inductor, because the finding came from them."""
    short: str = ""
    """The change in a few words, for advice that combines several; empty if it cannot be combined."""
    rule: str = ""
    """The rule that offers it."""
    saves_time: bool = False
    """Whether it is about compile time, which its trial compares, and about no cause."""
    change: Trial | None = None
    """What a program can carry out, where that is not the trial: no trial checks it, or it is a part of the trial."""
    is_no_change: bool = False
    """Whether it says that nothing needs to change, at least for some users."""


_PACKAGE = re.compile(r"^(?P<folder>.*[/\\](?:site|dist)-packages)[/\\](?P<name>[^/\\]+)")


@lru_cache(maxsize=64)
def package_of(file: str) -> str:
    """Return the package of a file, with its version if it is installed here; empty if it is in no package."""
    match = _PACKAGE.match(file)
    if match is None:
        return ""
    from importlib.metadata import distributions  # slow to import

    name = match["name"].removesuffix(".py")
    # Only in the package's own folder: this Python may have another version of it.
    found = next(iter(distributions(name=name, path=[match["folder"]])), None)
    if found is not None:
        return f"{name} {found.version}"
    return name


def in_library(file: str) -> str:
    """Describe in parentheses how to change a line of a package; empty for a user's file."""
    package = package_of(file)
    if package:
        return f" ({package}: patch it from your code, or report it there)"
    return ""
