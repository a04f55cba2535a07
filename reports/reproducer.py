"""A reproducer as a program, as the text of an issue, and what was proved about it in a sentence.

The text of an issue for the authors of a package whose code breaks the graph.
"""

from collections.abc import Iterator, Mapping

from ctrace.inspector.diagnosis.diagnosis_scene import package_of
from ctrace.inspector.facts.diagnosis import Finding, RootCause
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.features.fix.reduction.saved_reproducers import Reproducer, versions
from ctrace.inspector.features.fix.repairs.repair_result import Fixes, TriedRepair
from ctrace.inspector.source.owners import owner_of
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, markdown_text, patch_text

# Chosen: the end of the output has the error; an issue should fit a page.
_MOST_OUTPUT = 40
_KINDS = {
    Finding.BREAK: "graph break",
    Finding.RECOMPILE: "recompilation",
    Finding.SKIP: "a function runs eagerly",
    Finding.FAILURE: "failure",
    Finding.DANGER: "wrong result",
}


def render_program(made: Reproducer) -> SafeText:
    """Write the program."""
    return patch_text(made.text)


def claim(made: Reproducer) -> str:
    """Say what was proved, in one sentence."""
    where = f" at line {made.line}" if made.line is not None else ""
    work = f"{fmt.count(made.lines, 'line')}; {fmt.count(made.tries, 'try', 'tries')}, {made.seconds:.0f} s"
    if not made.verified:
        return f"not verified: a fresh process did not show {made.sought.words}{where}; {work}"
    end = "" if made.is_complete else _unfinished(made)
    return f"runs by itself, shows {made.sought.words}{where}; {work}{end}"


def _unfinished(made: Reproducer) -> str:
    if made.interrupted:
        return "; interrupted, so not the least"
    return "; --budget is spent, so not the least"


def render_issue(made: Reproducer) -> SafeText:
    """Write the text of an issue: what happens, the program, what it prints, and versions."""
    kind = _KINDS.get(made.sought.what, "finding")
    lines = [f"# torch.compile: {kind}: {fmt.one_line(made.sought.title, 120)}", ""]
    lines += ["```python", made.text.rstrip("\n"), "```", ""]
    lines += [f"`python repro.py` ({made.form}):", "", "```", *_output(made), "```", "", _environment(made)]
    return markdown_text("\n".join(lines) + "\n")


def _output(made: Reproducer) -> list[str]:
    # Three backticks would end the block.
    lines = [each.replace("```", "'''") for each in made.output.rstrip("\n").splitlines()]
    if len(lines) <= _MOST_OUTPUT:
        return lines or ["(nothing)"]
    left_out = len(lines) - _MOST_OUTPUT
    return [f"... {fmt.count(left_out, 'line')} left out", *lines[-_MOST_OUTPUT:]]


def _environment(made: Reproducer) -> str:
    return f"Versions: {versions(made.environment)}."


def library_findings(fixes: Fixes) -> list[RootCause]:
    """Return the findings in packages that the user does not own."""
    prefixes = fixes.session.environment.prefixes
    return [
        cause
        for cause in fixes.findings
        if cause.file and not cause.expected and owner_of(cause.file, prefixes) is not Owner.USER
    ]


def render_issues(fixes: Fixes, reproducers: Mapping[str, str]) -> SafeText:
    """Write one issue for each finding in a package, as Markdown; `reproducers` are programs, keyed by finding."""
    found = library_findings(fixes)
    if not found:
        return markdown_text("No finding is in a package that you do not own.\n")
    texts = ("\n".join(_issue(cause, fixes, reproducers.get(cause.id, ""))) + "\n" for cause in found)
    return markdown_text("\n---\n\n".join(texts))


def _issue(cause: RootCause, fixes: Fixes, reproducer: str) -> Iterator[str]:
    session = fixes.session
    package = package_of(cause.file or "") or "the library"
    yield f"# torch.compile: {fmt.one_line(cause.title, 120)}"
    yield ""
    yield f"- {package}, {fmt.file_name(cause.file or '')}, line {cause.line}, in {cause.function or 'a function'}"
    yield f"- torch {session.environment.torch}, Python {session.environment.python}"
    yield ""
    if cause.source:
        yield from ("```python", cause.source, "```", "")
    if cause.why:
        yield f"{fmt.one_line(cause.why, 400)}"
        yield ""
    if reproducer:
        yield from ("This program shows it:", "", "```python", reproducer.rstrip("\n").replace("```", "'''"), "```", "")
    repairs = [each for each in fixes.repairs if cause.id in (each.finding, *each.findings) and each.library]
    proved = [each for each in repairs if each.proved]
    yield from _patch(proved[0]) if proved else _no_patch(repairs)


def _patch(each: TriedRepair) -> Iterator[str]:
    passed = [check for check in each.outcome.checks if check.passed]
    yield f"This change removes it, and {len(passed)} checks passed: {fmt.one_line(each.summary, 200)}"
    if each.question:
        yield f"It needs a decision: {each.question}"
    yield from ("", "```diff", each.patch.rstrip("\n"), "```")


def _no_patch(tried: list[TriedRepair]) -> Iterator[str]:
    if not tried:
        yield "ctrace knows no repair for it."
        return
    yield "No repair is proved:"
    for each in tried[:3]:
        yield f"- {fmt.one_line(each.summary, 200)} Unproved, because {fmt.one_line(each.outcome.why, 200)}."
