"""A reproducer as a program, as the text of an issue, and what was proved about it in a sentence."""

from ctrace.inspector.facts.diagnosis import Finding
from ctrace.inspector.features.fix.reduction.reduction_result import Reproducer
from ctrace.inspector.features.fix.reduction.reduction_writing import versions
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document, markdown_document, patch_document

_MOST_OUTPUT = 40
_KINDS = {
    Finding.BREAK: "graph break",
    Finding.RECOMPILE: "recompilation",
    Finding.SKIP: "a function runs eagerly",
    Finding.FAILURE: "failure",
    Finding.DANGER: "wrong result",
}


def render_program(made: Reproducer) -> Document:
    """Write the program."""
    return patch_document(made.text)


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


def render_issue(made: Reproducer) -> Document:
    """Write the text of an issue: what happens, the program, what it prints, and versions."""
    kind = _KINDS.get(made.sought.what, "finding")
    lines = [f"# torch.compile: {kind}: {fmt.one_line(made.sought.title, 120)}", ""]
    lines += ["```python", made.text.rstrip("\n"), "```", ""]
    lines += [f"`python repro.py` ({made.form}):", "", "```", *_output(made), "```", "", _environment(made)]
    return markdown_document("\n".join(lines) + "\n")


def _output(made: Reproducer) -> list[str]:
    lines = [each.replace("```", "'''") for each in made.output.rstrip("\n").splitlines()]
    if len(lines) <= _MOST_OUTPUT:
        return lines or ["(nothing)"]
    left_out = len(lines) - _MOST_OUTPUT
    return [f"... {fmt.count(left_out, 'line')} left out", *lines[-_MOST_OUTPUT:]]


def _environment(made: Reproducer) -> str:
    return f"Versions: {versions(made.environment)}."
