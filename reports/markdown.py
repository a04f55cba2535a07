"""A Session as Markdown, for an issue or a pull request."""

from collections.abc import Iterable, Iterator

from ctrace.inspector.model import Session
from ctrace.inspector.views.breaks import ranked
from ctrace.inspector.views.fusionmissed import top_missed
from ctrace.inspector.views.fusiontotals import session_totals
from ctrace.inspector.views.recompiles import groups
from ctrace.inspector.views.scenarios import provoked
from ctrace.inspector.views.summary import fusion_totals, guard_count, languages, next_steps, sentence
from ctrace.inspector.views.targetgpu import (
    open_sentence,
    question_place,
    question_sentence,
    questions,
    target_sentence,
)
from ctrace.inspector.virtual import DeviceQuestion
from ctrace.reports import format as fmt
from ctrace.reports.fusiontext import bytes_text, missed_text
from ctrace.reports.markup import code, prose, row, text
from ctrace.reports.targettext import kernel_facts


def render_markdown(session: Session) -> str:
    """Write the report, with a final newline."""
    return "\n".join(_lines(session)) + "\n"


def _lines(session: Session) -> Iterator[str]:
    environment, cwd = session.environment, session.environment.cwd
    name = session.target.path or session.target.name or "this run"
    yield f"### ctrace: {text(name)}: **{str(session.verdict).replace('_', ' ')}**"
    yield f"\n{prose(sentence(session))}"
    if told := target_sentence(session):
        yield f"\n{text(told)}"
    if session.breaks:
        yield "\n| graph break | code | owner | times | costs | why | what to do |\n|---|---|---|---|---|---|---|"
        for found in ranked(session):
            each = found.at
            where = code(f"{fmt.place(each.file, each.line, cwd)} {' '.join(each.gb)}")
            counts = str(each.owner), str(each.times), fmt.cost(found.cost)
            yield row(where, code(each.source), *counts, prose(each.reason), prose(each.fix))
    yield from _dangers(session)
    if session.skips:
        yield "\n| left in eager | place | why |\n|---|---|---|"
        for skip in session.skips:
            yield row(code(skip.function), code(fmt.place(skip.file, skip.line, cwd)), prose(skip.reason))
    if recompiled := groups(session):
        yield "\n| recompiled for | kind | values | times | expected | what to do |\n|---|---|---|---|---|---|"
        for group in recompiled:
            values = text(fmt.listed(group.values, 8))
            expected = "yes" if group.expected else "no"
            yield row(code(group.subject), group.kind, values, str(len(group.compilations)), expected, text(group.fix))
    yield from _provoked(session)
    yield "\n| fact | value |\n|---|---|"
    for fact, value in _facts(session):
        yield row(fact, text(value))
    yield from _bullets("The program asks about the device", map(_question, questions(session)))
    yield from _bullets("What to do", next_steps(session))
    yield from _bullets("Problems", (problem.what for problem in session.problems))
    made_by = f"ctrace {environment.ctrace or '?'}, torch {environment.torch or '?'}, {environment.device or '?'}"
    yield f"\n<sub>{text(made_by)}</sub>"


def _dangers(session: Session) -> Iterator[str]:
    if session.dangers:
        yield "\n| silent danger | place | why | what to do |\n|---|---|---|---|"
        for each in session.dangers:
            where = code(fmt.place(each.file, each.line, session.environment.cwd)) if each.file else "not known"
            yield row(text(f"{each.kind} {each.subject}"), where, prose(each.why), prose(each.fix))


def _provoked(session: Session) -> Iterator[str]:
    if tried := provoked(session):
        yield "\n| provoked | recompiles | what happened |\n|---|---|---|"
        for each in tried:
            yield row(code(each.scenario.name), str(each.recompiles), text(each.answer))


def _facts(session: Session) -> Iterator[tuple[str, str]]:
    guards = guard_count(session)
    yield "graphs", str(len(session.graphs))
    yield "ops in graphs", fmt.share(session.coverage.compiled, session.coverage.ops)
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
        yield "missed fusion", missed_text(top[1])
    if session.kernels:
        yield "kernels", ", ".join(f"{number} {language}" for language, number in languages(session).items())
    yield from (("kernels", told) for told in kernel_facts(session))
    if told := open_sentence(session):
        yield "left to the device", told
    phases = ", ".join(f"{name} {fmt.seconds(value)}" for name, value in session.time.phases.items())
    yield "time", f"{fmt.seconds(session.time.total)}{f' ({phases})' if phases else ''}"


def _question(each: DeviceQuestion) -> str:
    return f"{question_place(each)} in {each.function}: {question_sentence(each)}"


def _bullets(title: str, items: Iterable[str]) -> Iterator[str]:
    texts = list(items)
    if texts:
        yield f"\n**{title}**\n"
        yield from (f"- {prose(text)}" for text in texts)
