"""A Session as Markdown, for an issue or a pull request.

Compilations and graph breaks are also drawn as a Mermaid picture, which GitHub shows in Markdown.
"""

import re
from collections.abc import Iterable, Iterator

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.diagnosis.recompiles_document import advice_on
from ctrace.inspector.diagnosis.sentences import advised
from ctrace.inspector.facts.diagnosis import Diagnosis, Finding, RootCause
from ctrace.inspector.facts.session import Compilation, Session
from ctrace.inspector.facts.target_facts import DeviceQuestion
from ctrace.inspector.findings.breaks.break_view import ranked
from ctrace.inspector.findings.fusion_totals import session_totals
from ctrace.inspector.findings.missed_fusions import top_missed
from ctrace.inspector.findings.recompiles.recompile_view import groups
from ctrace.inspector.findings.scenario_view import not_compared, provoked, why_no_coverage
from ctrace.inspector.findings.target_view import (
    open_sentence,
    question_place,
    question_sentence,
    questions,
    target_sentence,
)
from ctrace.inspector.session.summary import (
    fast_sentence,
    first_lines,
    fusion_totals,
    guard_count,
    languages,
    next_steps,
    other_problems,
    sentence,
)
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document, markdown_document
from ctrace.reports.markup import code, prose, row, text
from ctrace.reports.wording.accuracy_wording import answer, basis, rounded
from ctrace.reports.wording.diagnosis_wording import (
    MOST_ADVICE,
    MOST_CAUSES,
    asks_nothing,
    cost,
    effects,
    is_failure_alone,
    is_nothing,
    later_calls,
    notes,
    symptoms,
)
from ctrace.reports.wording.fusion_wording import bytes_text, missed_text
from ctrace.reports.wording.kernels_wording import kernel_facts

_SENTENCE = 1000
"""The most characters of one sentence; a message of the user's program may have millions."""


def render_markdown(session: Session) -> Document:
    """Write the report, with a final newline."""
    return markdown_document("\n".join(_lines(session)) + "\n")


def _lines(session: Session) -> Iterator[str]:
    environment, cwd = session.environment, session.environment.cwd
    name = session.target.path or session.target.name or "this run"
    yield f"### ctrace: {text(name)}: **{str(session.verdict).replace('_', ' ')}**"
    yield f"\n{prose(fmt.shortened(sentence(session), _SENTENCE))}"
    if unknown := first_lines(session):
        yield "\n" + "\n".join(f"- {prose(fmt.shortened(each, _SENTENCE))}" for each in unknown)
    if line := target_sentence(session):
        yield f"\n{text(line)}"
    yield from _conclusion(session)
    yield from picture(session)
    if session.breaks:
        yield "\n| graph break | code | owner | times | costs | why | what to do |\n|---|---|---|---|---|---|---|"
        advice = advised(session, Finding.BREAK)
        for found in ranked(session):
            each = found.at
            todo = advice.get(session.breaks.index(each), each.fix)
            where = code(f"{fmt.place(each.file, each.line, cwd)} {' '.join(each.gb)}")
            counts = text(each.owner), text(str(each.times)), text(fmt.cost(found.cost))
            yield row(where, code(each.source), *counts, prose(each.reason), prose(todo))
    yield from _dangers(session)
    if session.skips:
        yield "\n| runs eagerly | place | why |\n|---|---|---|"
        for skip in session.skips:
            yield row(code(skip.function), code(fmt.place(skip.file, skip.line, cwd)), prose(skip.reason))
    if recompiled := groups(session):
        advice = advised(session, Finding.RECOMPILE)
        yield "\n| recompiled for | kind | values | times | expected | what to do |\n|---|---|---|---|---|---|"
        for group in recompiled:
            values = text(fmt.listed(group.values, 8))
            expected = text("yes" if group.expected else "no")
            times = text(str(len(group.compilations)))
            todo = prose(advice_on(group, session, advice))
            yield row(code(group.subject), text(group.kind), values, times, expected, todo)
    yield from _provoked(session)
    yield "\n| fact | value |\n|---|---|"
    for fact, value in _facts(session):
        yield row(text(fact), text(value))
    yield from _bullets("The program asks about the device", map(_question, questions(session)))
    yield from _bullets("Problems", (fmt.shortened(problem.what, _SENTENCE) for problem in other_problems(session)))
    made_by = f"ctrace {environment.ctrace or '?'}, torch {environment.torch or '?'}, {environment.device or '?'}"
    yield f"\n<sub>{text(made_by)}</sub>"


def _conclusion(session: Session) -> Iterator[str]:
    """Say what to do and why, before the evidence."""
    if session.environment.fast:
        yield f"\n{text(fast_sentence())}"
    found = diagnose(session)
    yield from _advice(found) if found.advice else _steps(next_steps(session))
    if later := later_calls(session):
        yield f"\n{text(later)}"
    yield from _causes(found, session.environment.cwd)


def _steps(steps: tuple[str, ...]) -> Iterator[str]:
    """List the next steps of a run without advice; that there is nothing to do is no step."""
    if steps and is_nothing(steps[0]):
        yield f"\n{prose(' '.join(steps))}"
    else:
        yield from _bullets("What to do", steps)


def _advice(found: Diagnosis) -> Iterator[str]:
    """List the best advice, with the result of its trial."""
    asked = [each for each in found.advice if not asks_nothing(each)]
    if asked:
        yield "\n**What to do**\n"
    for number, each in enumerate(asked[:MOST_ADVICE], 1):
        shown = f" ({text(effect)})" if (effect := effects(each, found)) else ""
        yield f"{number}. {prose(fmt.shortened(each.text, _SENTENCE))}{shown}"
    if (left := len(asked) - MOST_ADVICE) > 0:
        yield f"\nAnd {fmt.count(left, 'more suggestion')}: see `ctrace explain --verbose`."
    for note in notes(found):
        yield f"\n{prose(fmt.shortened(note, _SENTENCE))}"


def _causes(found: Diagnosis, cwd: str) -> Iterator[str]:
    """List the costliest causes, in the order of the screen."""
    shown = [each for each in found.causes if not is_failure_alone(each)]
    if not shown:
        return
    yield "\n| cause | place | findings | costs | why |\n|---|---|---|---|---|"
    for each in shown[:MOST_CAUSES]:
        where = code(fmt.place(each.file, each.line, cwd)) if each.file else text("not known")
        yield row(prose(each.title), where, text(symptoms(each)), text(cost(each)), prose(_why(each)))
    if (left := len(shown) - MOST_CAUSES) > 0:
        yield f"\nAnd {fmt.count(left, 'more cause')}: see `ctrace explain --json`."


def _why(each: RootCause) -> str:
    """Return a cause's reason, and torch's own if it is about another cache entry."""
    parts = (each.why, each.detail) if each.detail else (each.why,)
    return each.expected or " · ".join(part for part in parts if part)


def _dangers(session: Session) -> Iterator[str]:
    if session.dangers:
        yield "\n| silent danger | place | why | what to do | results |\n|---|---|---|---|---|"
        for each in session.dangers:
            where = code(fmt.place(each.file, each.line, session.environment.cwd)) if each.file else text("not known")
            results = "; ".join(filter(None, (each.difference, basis(each.comparison))))
            yield row(text(f"{each.kind} {each.subject}"), where, prose(each.why), prose(each.fix), text(results))
    for why, names in not_compared(session).items():
        yield f"\nNot compared with eager in {', '.join(map(code, names))}: {text(why)}."
    yield from (f"\n{text(sentence)}" for sentence in rounded(session))


def _provoked(session: Session) -> Iterator[str]:
    if tried := provoked(session):
        yield "\n| provoked | recompiles | what happened |\n|---|---|---|"
        for each in tried:
            yield row(code(each.scenario.name), text(str(each.recompiles)), text(each.answer))


def _facts(session: Session) -> Iterator[tuple[str, str]]:
    guards = guard_count(session)
    yield "graphs", str(len(session.graphs))
    why = why_no_coverage(session)
    share = fmt.share(session.coverage.compiled, session.coverage.ops)
    yield "ops in graphs", text(f"not measured: {why}") if why else share
    yield "guards", "not measured" if guards is None else str(guards)
    if session.limit.hit:
        yield "recompile limit", "hit"
    if totals := fusion_totals(session):
        yield (
            "fusion",
            f"{fmt.count(totals.before, 'node')} into {totals.after}, at most {fmt.count(totals.rounds, 'round')}",
        )
    if moved := session_totals(session):
        yield "bytes", bytes_text(moved)
    if top := top_missed(session):
        yield "missed fusion", missed_text(top)
    if session.kernels:
        yield "kernels", ", ".join(f"{number} {language}" for language, number in languages(session).items())
    yield from (("kernels", fact) for fact in kernel_facts(session))
    if undecided := open_sentence(session):
        yield "decided on the device", undecided
    if session.accuracy is not None:
        yield "numbers", fmt.one_line(answer(session.accuracy, session.environment.cwd), 400)
    phases = ", ".join(f"{name} {fmt.seconds(value)}" for name, value in session.time.phases.items())
    yield "time", f"{fmt.seconds(session.time.total)}{f' ({phases})' if phases else ''}"


def _question(each: DeviceQuestion) -> str:
    return f"{question_place(each)} in {each.function}: {question_sentence(each)}"


def _bullets(title: str, items: Iterable[str]) -> Iterator[str]:
    texts = list(items)
    if texts:
        yield f"\n**{title}**\n"
        yield from (f"- {prose(text)}" for text in texts)


_MOST = 12
"""How many compilations and breaks a small picture has."""
# Chosen: Mermaid makes a box as wide as its longest line, and GitHub shrinks the picture to the page.
_LONGEST = 48
_UNSAFE = re.compile(r"[^A-Za-z0-9 _.,:/()=+*'!?…·-]|(?<=:):|:(?=:)")


def picture(session: Session) -> Iterator[str]:
    """Yield the lines of a fenced Mermaid block; nothing if there is only one graph, or none."""
    shown = session.compilations[:_MOST]
    if len(shown) < 2 and not session.breaks:
        return
    yield "\n```mermaid\nflowchart TD"
    ops = {each.id: each.ops for each in session.graphs}
    names = {each.id: f"c{at}" for at, each in enumerate(shown)}
    for each in shown:
        yield f"  {names[each.id]}[{_label(*_of(each, ops.get(each.id)))}]"
    for at, found in enumerate(session.breaks[:_MOST]):
        place = f"{fmt.file_name(found.file)}:{found.line}"
        yield f"  b{at}{{{{{_label('graph break', place, found.expression or found.source)}}}}}"
        yield f"  style b{at} stroke:#d73a49"
        for id_ in found.compilations:
            yield from (f"  {names[id_]} --> b{at}",) if id_ in names else ()
        for each in shown:
            if each.resumes_at is not None and (each.file, each.resumes_at) == (found.file, found.line):
                yield f"  b{at} -->|resumes| {names[each.id]}"
    last: dict[str, str] = {}
    for each in shown:
        if each.frame in last:
            yield f"  {last[each.frame]} -.->|recompiles| {names[each.id]}"
        last[each.frame] = names[each.id]
    yield "```"
    left = len(session.compilations) - len(shown), len(session.breaks[_MOST:])
    if any(left):
        yield f"\nNot in the picture: {fmt.count(left[0], 'compilation')} and {fmt.count(left[1], 'graph break')}."


def _of(each: Compilation, ops: int | None) -> tuple[str, ...]:
    place = f"{fmt.file_name(each.file)}:{each.resumes_at or each.line}"
    what = "no graph" if ops is None else fmt.count(ops, "op")
    return f"{each.id} {each.function}", place, what


def _label(*lines: str) -> str:
    """Write a label; what Mermaid, Markdown or a CI system would interpret becomes a character code."""
    return '"' + " · ".join(_UNSAFE.sub(_code, fmt.one_line(line, _LONGEST)) for line in lines if line) + '"'


def _code(found: re.Match[str]) -> str:
    return f"#{ord(found[0])};"
