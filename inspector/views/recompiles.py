"""Recompiles grouped by what changed: one cause a group, with the values it took."""

from dataclasses import dataclass

from ctrace.inspector.model import Cause, Recompile, Session


@dataclass(frozen=True, slots=True)
class RecompileGroup:
    """Recompiles of one function for one cause."""

    function: str
    file: str
    line: int
    """The line that fixed the value, where it is known, else the function's first."""
    kind: str
    subject: str
    values: tuple[str, ...]
    """Values in the order they came, the first one included; empty: not known."""
    compilations: tuple[str, ...]
    expected: bool
    fix: str


def groups(session: Session) -> tuple[RecompileGroup, ...]:
    """Group recompiles by function, kind and subject; a recompile without a known cause is a group of its own kind."""
    found: dict[tuple[str, str, str, str], list[tuple[Recompile, Cause]]] = {}
    for recompile in session.recompiles:
        for cause in recompile.causes or (Cause("other", "torch gives no reason"),):
            key = recompile.function, recompile.file, cause.kind, cause.subject
            found.setdefault(key, []).append((recompile, cause))
    return tuple(_group(members) for members in found.values())


def _group(members: list[tuple[Recompile, Cause]]) -> RecompileGroup:
    recompile, first = members[0]
    values = [value for _, cause in members for value in (cause.was, cause.now) if value is not None]
    return RecompileGroup(
        function=recompile.function,
        file=recompile.file,
        line=first.line or recompile.line,
        kind=first.kind,
        subject=first.subject,
        values=tuple(dict.fromkeys(values)),
        compilations=tuple(dict.fromkeys(each.compilation for each, _ in members)),
        expected=all(each.expected for each, _ in members),
        fix=first.fix,
    )
