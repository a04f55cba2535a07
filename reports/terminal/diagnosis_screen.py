"""Show the diagnosis: what to do, best advice first, and the causes with their symptoms."""

import re
from collections.abc import Iterator

from msgspec.structs import replace
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from ctrace.inspector.facts.diagnosis import Diagnosis, Finding, RootCause
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.facts.session import Session
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import item, section
from ctrace.reports.wording.accuracy_wording import basis
from ctrace.reports.wording.diagnosis_wording import (
    MOST_ADVICE,
    MOST_CAUSES,
    asks_nothing,
    cost,
    effects,
    is_failure_alone,
    notes,
    symptoms,
)

_ADVICE = 320
"""The most characters to show of a piece of advice."""
_EXPLAINED = 2
"""How many causes are shown with their reason if there are more than three causes."""
_WHY = {1: 400, 2: 300, 3: 220, 4: 220, 5: 120}
"""The most characters of a cause's reason, keyed by the number of causes shown, so that all fit on one screen."""
_TORCHS_LETTERS = 240
"""The most characters of torch's own words in a cause's reason, if the reason has less room."""
_PLACE = 60
"""The most columns for a place."""
_DETAIL = 150
"""The most characters of torch's own reason, which is shown if it is about another cache entry."""
_SENTENCE_END = re.compile(r"[.:;](?= |$)")


def what_to_do(found: Diagnosis, *, whole: bool = False) -> Iterator[RenderableType]:
    """Show the best advice, or the `whole` of it, each with the effect that a trial measured."""
    asked = [each for each in found.advice if not asks_nothing(each)]
    most = len(asked) if whole else MOST_ADVICE
    if asked:
        yield section("What to do")
        for number, each in enumerate(asked[:most], 1):
            head = f"{number}. " if len(asked) > 1 else ""
            lines: list[RenderableType] = [
                _hanging(Text(f"{head}{_bounded(each.text, _ADVICE)}", style="green"), len(head))
            ]
            if effect := effects(each, found):
                lines.append(Padding(Text(effect, style="dim"), (0, 0, 0, len(head))))
            yield item(Group(*lines))
        left = len(asked) - most
        if left > 0:
            yield Text(f" and {fmt.count(left, 'more suggestion')}: see ctrace explain --verbose", style="dim")
    if said := [_bounded(each, _ADVICE) for each in notes(found)]:
        yield Text("\n" + "\n".join(said), style="green")


def _hanging(text: Text, indent: int) -> RenderableType:
    """Indent the lines after the first."""
    if not indent:
        return Padding(text, (0, 0, 0, 0))
    return _Hanging(text, indent)


class _Hanging:
    """Text whose lines after the first are indented."""

    def __init__(self, text: Text, indent: int) -> None:
        self._text = text
        self._indent = indent

    def __rich_console__(self, console, options):  # type: ignore[no-untyped-def]
        """Fold the text to the remaining width, and indent all lines but the first."""
        lines = self._text.wrap(console, max(options.max_width - self._indent, 20))
        for number, line in enumerate(lines):
            yield Text(" " * (self._indent if number else 0)) + line


def causes(found: Diagnosis, session: Session) -> Iterator[RenderableType]:
    """Show the costliest causes, each with its line, why, and how many findings it explains."""
    shown = [each for each in found.causes if not each.expected and not is_failure_alone(each)]
    if shown:
        yield section(f"Cause{'s, costliest first' if len(shown) > 1 else ''}")
        for number, each in enumerate(shown[:MOST_CAUSES], 1):
            letters = _WHY[min(len(shown), MOST_CAUSES)] if number <= _EXPLAINED or len(shown) <= _EXPLAINED + 1 else 0
            yield item(_cause(number if len(shown) > 1 else 0, each, session, letters))
        if len(shown) > MOST_CAUSES:
            yield Text(
                f" and {fmt.count(len(shown) - MOST_CAUSES, 'more cause')}: see ctrace explain --json", style="dim"
            )
    if expected := [each for each in found.causes if each.expected]:
        advised = {id_ for advice in found.advice for id_ in advice.causes}
        yield from _expected(expected, has_advice=any(each.id in advised for each in expected))


def _cause(number: int, each: RootCause, session: Session, letters: int) -> RenderableType:
    """Show a cause, with its reason in at most `letters` letters; 0: without the reason."""
    cwd = session.environment.cwd
    head = Text.assemble((f"{number}. " if number else "", "bold"), (fmt.one_line(each.title, 150), "bold"))
    indent = len(f"{number}. ") if number else 0
    where = fmt.short_place(each.file, each.line, cwd, _PLACE) if each.file else ""
    function = f" in {fmt.one_line(each.function, 40)}" if each.function else ""
    lines: list[RenderableType] = [_hanging(head, indent)]
    place = f"{where}{function}{_also_from(each, session)}".strip()
    facts = " · ".join(part for part in (place, symptoms(each), cost(each)) if part)
    lines.append(Padding(Text(fmt.one_line(facts, 300), style="dim"), (0, 0, 0, indent)))
    if letters and (inside := _inside(each, session)):
        lines.append(Padding(Text(fmt.one_line(inside, 300), style="dim"), (0, 0, 0, indent)))
    why = ". ".join(part for part in (_compared(each, session), each.why) if part)
    if why and letters:
        lines.append(Padding(Text(_with_torchs_words(why, letters)), (0, 0, 0, indent)))
    if each.detail and letters:
        lines.append(Padding(Text(fmt.one_line(each.detail, _DETAIL), style="dim"), (0, 0, 0, indent)))
    return Group(*lines)


def _also_from(each: RootCause, session: Session) -> str:
    """Name the other lines of the user that lead to a break that several of them share, such as one in a library."""
    breaks = (session.breaks[symptom.index] for symptom in each.symptoms if symptom.what is Finding.BREAK)
    shared = (at.user_lines for at in breaks if len(at.user_lines) > 1)
    places = dict.fromkeys((line.at.file, line.at.line) for lines in shared for line in lines)
    others = (place for place in places if place != (each.file, each.line))
    shown = [fmt.short_place(file, line, session.environment.cwd, _PLACE) for file, line in others]
    if shown:
        return f", also from {fmt.listed(shown, 3)}"
    return ""


def _inside(each: RootCause, session: Session) -> str:
    """Say which lines of libraries a cause's breaks are at; empty if all are at the user's own lines."""
    breaks = [session.breaks[symptom.index] for symptom in each.symptoms if symptom.what is Finding.BREAK]
    places = [
        fmt.short_place(at.inside.file, at.inside.line, session.environment.cwd, _PLACE) for at in breaks if at.inside
    ]
    if places:
        return f"inside: {fmt.listed(dict.fromkeys(places), 3)}"
    return ""


def _compared(each: RootCause, session: Session) -> str:
    """Say how results differ, and with what ctrace compared them; empty for any other cause than a wrong result."""
    dangers = [session.dangers[symptom.index] for symptom in each.symptoms if symptom.what is Finding.DANGER]
    if not dangers:
        return ""
    return "; ".join(part for part in (fmt.one_line(dangers[0].difference, 120), basis(dangers[0].comparison)) if part)


_TORCHS_WORDS = "Torch says: "


def _with_torchs_words(why: str, letters: int) -> str:
    """Bound a reason, but keep torch's own words at its end, which say what this case is about."""
    ours, found, words = fmt.one_line(why).partition(_TORCHS_WORDS)
    if not found or fmt.width(why) <= letters:
        return _bounded(why, letters)
    kept = fmt.cut(f"{found}{words}", max(letters, _TORCHS_LETTERS))
    left = letters - fmt.width(kept)
    if _SENTENCE_END.search(ours[: max(left, 0)]):
        return f"{_bounded(ours, left)} {kept}"
    return kept


def _bounded(text: str, letters: int) -> str:
    """Keep the whole sentences that fit; cut the first one only if it does not fit.

    A sentence in parentheses or in code, such as the message of an exception, ends no sentence of ours.
    """
    line = fmt.one_line(text)
    if fmt.width(line) <= letters:
        return line
    starts = [line[: at.end()] for at in _SENTENCE_END.finditer(line)]
    whole = [each for each in starts if each.count("(") <= each.count(")") and each.count("`") % 2 == 0]
    ends = [len(each) for each in whole if fmt.width(each) <= letters]
    if ends:
        return line[: ends[-1]].rstrip()
    return fmt.cut(line, letters)


def _expected(found: list[RootCause], *, has_advice: bool) -> Iterator[RenderableType]:
    """List what needs no change, one line for each title."""
    kinds = {symptom.what for each in found for symptom in each.symptoms}
    what = "Expected recompilations" if kinds == {Finding.RECOMPILE} else "Expected"
    yield section(what if has_advice else f"{what}, nothing to change")
    titles: dict[str, list[RootCause]] = {}
    for each in found:
        titles.setdefault(each.title, []).append(each)
    for title, same in list(titles.items())[:2]:
        counted = replace(same[0], symptoms=tuple(symptom for each in same for symptom in each.symptoms))
        yield item(Text(fmt.one_line(f"{title} ({symptoms(counted)})", 150), style="dim"))
    if len(titles) > 2:
        views = "ctrace recompiles" if kinds == {Finding.RECOMPILE} else "ctrace breaks, recompiles"
        yield Text(f" and {len(titles) - 2} more: see {views}", style="dim")


def gradients_note(session: Session) -> str:
    """Say that a model in eval mode ran with gradients on; empty otherwise."""
    chosen = [each for each in session.scenarios if each.kind is not ScenarioKind.PROVOKED]
    if any(each.unused_grad and each.training is False for each in chosen):
        return "called in eval mode with gradients on (torch.no_grad() turns them off)"
    return ""
