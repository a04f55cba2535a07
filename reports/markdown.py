"""The answer of `ctrace explain` as Markdown, for an issue or a pull request.

Compilations and graph breaks are also drawn as a Mermaid picture, which GitHub shows in Markdown.
"""

import re
from collections.abc import Iterable, Iterator

from ctrace.inspector.diagnosis.explain_document import ExplainDocument
from ctrace.inspector.facts.diagnosis import Diagnosis, RootCause
from ctrace.inspector.facts.session import Compilation
from ctrace.inspector.facts.target_gpu import DeviceQuestion
from ctrace.inspector.findings.target_gpu_view import question_place, question_sentence
from ctrace.inspector.session.summary import fast_sentence, other_problems
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, markdown_text
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
from ctrace.reports.wording.kernels_wording import kernel_facts, languages_text

_SENTENCE = 1000
"""The most characters of one sentence; a message of the user's program may have millions."""


def render_markdown(document: ExplainDocument) -> SafeText:
    """Write the report, with a final newline."""
    return markdown_text("\n".join(_lines(document)) + "\n")


def _lines(document: ExplainDocument) -> Iterator[str]:
    found, cwd = document.answer, document.cwd
    yield f"### ctrace: {text(found.target)}: **{str(found.verdict).replace('_', ' ')}**"
    yield f"\n{prose(fmt.shortened(found.sentence, _SENTENCE))}"
    if found.unknown:
        yield "\n" + "\n".join(f"- {prose(fmt.shortened(each, _SENTENCE))}" for each in found.unknown)
    if found.gpu:
        yield f"\n{text(found.gpu)}"
    yield from _conclusion(document)
    yield from picture(document)
    if document.breaks:
        yield "\n| graph break | code | owner | times | costs | why | what to do |\n|---|---|---|---|---|---|---|"
        for ranked in document.ranked:
            each = ranked.at
            todo = document.fixes.get(ranked.number, each.fix)
            where = code(f"{fmt.place(each.file, each.line, cwd)} {' '.join(each.gb)}")
            counts = text(each.owner), text(str(each.times)), text(fmt.cost(ranked.cost))
            yield row(where, code(each.source), *counts, prose(each.reason), prose(todo))
    yield from _dangers(document)
    if document.skipped:
        yield "\n| runs eagerly | place | why |\n|---|---|---|"
        for skip in document.skipped:
            yield row(code(skip.function), code(fmt.place(skip.file, skip.line, cwd)), prose(skip.reason))
    if document.groups:
        yield "\n| recompiled for | kind | values | times | expected | what to do |\n|---|---|---|---|---|---|"
        for advised in document.groups:
            group = advised.of
            values = text(fmt.listed(group.values, 8))
            expected = text("yes" if group.expected else "no")
            times = text(str(len(group.compilations)))
            yield row(code(group.subject), text(group.kind), values, times, expected, prose(advised.advice))
    yield from _provoked(document)
    yield "\n| fact | value |\n|---|---|"
    for fact, value in _facts(document):
        yield row(text(fact), text(value))
    yield from _bullets("The program asks about the device", map(_question, document.asked))
    problems = other_problems(document.run)
    yield from _bullets("Problems", (fmt.shortened(problem.what, _SENTENCE) for problem in problems))
    environment = document.run.environment
    made_by = f"ctrace {environment.ctrace or '?'}, torch {environment.torch or '?'}, {environment.device or '?'}"
    yield f"\n<sub>{text(made_by)}</sub>"


def _conclusion(document: ExplainDocument) -> Iterator[str]:
    """Say what to do and why, before the evidence."""
    if document.run.environment.fast:
        yield f"\n{text(fast_sentence())}"
    found = document.diagnosis
    yield from _advice(found) if found.advice else _steps(document.next_steps)
    if later := later_calls(document):
        yield f"\n{text(later)}"
    yield from _causes(found, document.cwd)


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


def _dangers(document: ExplainDocument) -> Iterator[str]:
    if document.dangers:
        yield "\n| silent danger | place | why | what to do | results |\n|---|---|---|---|---|"
        for each in document.dangers:
            where = code(fmt.place(each.file, each.line, document.cwd)) if each.file else text("not known")
            results = "; ".join(filter(None, (each.difference, basis(each.comparison))))
            yield row(text(f"{each.kind} {each.subject}"), where, prose(each.why), prose(each.fix), text(results))
    for why, names in document.not_compared.items():
        yield f"\nNot compared with eager in {', '.join(map(code, names))}: {text(why)}."
    yield from (f"\n{text(sentence)}" for sentence in rounded(document))


def _provoked(document: ExplainDocument) -> Iterator[str]:
    if document.provoked:
        yield "\n| provoked | recompiles | what happened |\n|---|---|---|"
        for each in document.provoked:
            yield row(code(each.scenario.name), text(str(each.recompiles)), text(each.answer))


def _facts(document: ExplainDocument) -> Iterator[tuple[str, str]]:
    totals, why, time = document.totals, document.why_no_coverage, document.time.of
    yield "graphs", str(totals.graphs)
    share = fmt.share(document.coverage.compiled, document.coverage.ops)
    yield "ops in graphs", text(f"not measured: {why}") if why else share
    yield "guards", fmt.known(document.guards, str, "not measured")
    if document.limit.hit:
        yield "recompile limit", "hit"
    if found := totals.fusion:
        nodes = f"{fmt.count(found.before, 'node')} into {found.after}"
        yield "fusion", f"{nodes}, at most {fmt.count(found.rounds, 'round')}"
        if found.moved:
            yield "bytes", bytes_text(found.moved)
        if found.missed:
            yield "missed fusion", missed_text(found.missed)
    if totals.languages:
        yield "kernels", languages_text(totals)
    yield from (("kernels", fact) for fact in kernel_facts(document.setup.target_gpu, totals))
    if totals.left_open:
        yield "decided on the device", totals.left_open
    if document.accuracy is not None:
        yield "numbers", fmt.one_line(answer(document.accuracy, document.cwd), 400)
    phases = ", ".join(f"{name} {fmt.seconds(value)}" for name, value in time.phases.items())
    yield "time", f"{fmt.seconds(time.total)}{fmt.framed(' (', phases, ')')}"


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


def picture(document: ExplainDocument) -> Iterator[str]:
    """Yield the lines of a fenced Mermaid block; nothing if there is only one graph, or none."""
    shown = document.compilations[:_MOST]
    if len(shown) < 2 and not document.breaks:
        return
    yield "\n```mermaid\nflowchart TD"
    ops = {each.of.id: each.of.ops for each in document.graphs}
    names = {each.id: f"c{at}" for at, each in enumerate(shown)}
    for each in shown:
        yield f"  {names[each.id]}[{_label(*_of(each, ops.get(each.id)))}]"
    for at, found in enumerate(document.breaks[:_MOST]):
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
    left = len(document.compilations) - len(shown), len(document.breaks[_MOST:])
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
