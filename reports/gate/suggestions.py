"""Show the repairs that `ctrace check --suggest` found: in words, as SARIF fixes, and as code for a review."""

from collections.abc import Callable, Iterator
from typing import Any

from ctrace.inspector.facts.suggested_repair import Replacement, SuggestedRepair
from ctrace.reports import format as fmt
from ctrace.reports.escape import is_hidden, without_commands


def suggestion_lines(found: SuggestedRepair | None) -> Iterator[str]:
    """Yield what the search for a repair found, in one or two lines."""
    if found is None:
        return
    if not found.proved:
        tried = f"{found.repair} is unproved, because " if found.repair else ""
        yield f"No proved repair: {tried}{found.why}"
        return
    if found.library:
        yield f"Proved repair in {found.library}, which is not your code: {found.summary}"
    elif found.question:
        yield f"Proved, if you agree: {found.summary} {found.question}"
    elif found.how:
        yield f"Proved repair: {found.summary} Write: {found.how}."
    else:
        yield f"Proved repair: {found.summary}"
    yield f"`{found.command}`"


def sarif_fixes(found: SuggestedRepair | None, artifact: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the `fixes` of a result: one fix, for a proved repair of the user's own files, or none.

    Args:
        found: the suggestion.
        artifact: writes a path as an artifactLocation.
    """
    if found is None or not found.is_ready or not found.replacements:
        return []
    changes: dict[str, list[dict[str, Any]]] = {}
    for each in found.replacements:
        changes.setdefault(each.file, []).append(_replacement(each))
    return [
        {
            "description": {"text": fmt.one_line(found.summary) or "A proved repair."},
            "artifactChanges": [
                {"artifactLocation": artifact(file), "replacements": several} for file, several in changes.items()
            ],
        }
    ]


def _replacement(each: Replacement) -> dict[str, Any]:
    """Write a replacement of whole lines.

    A region from the first column of one line to the first column of another one takes the line ends with it; where
    the last line has no end, the region stops after its last letter.
    """
    region = {"startLine": each.line, "startColumn": 1, "endLine": each.end, "endColumn": 1}
    text = each.new
    if each.old and not each.old.endswith("\n"):
        last = each.old.rpartition("\n")[2]
        region |= {"endLine": each.end - 1, "endColumn": len(last) + 1}
    elif not each.old and each.before and not each.before.endswith("\n"):
        region = {"startLine": each.line - 1, "startColumn": len(each.before) + 1}
        region |= {"endLine": each.line - 1, "endColumn": len(each.before) + 1}
        text = f"\n{text}"
    return {"deletedRegion": region, "insertedContent": {"text": text}}


def review_block(found: SuggestedRepair) -> tuple[int, int, str] | None:
    """Return lines of the file and the code block that GitHub offers as a change of these lines.

    None: the repair is in several places, or its text has letters that a report must not show as they are.
    """
    if not found.is_ready or len(found.replacements) != 1:
        return None
    (one,) = found.replacements
    first, text = one.line, one.new
    if one.end == one.line:  # a review replaces lines; it cannot insert between them
        if not one.before:
            return None
        first, text = one.line - 1, one.before + ("" if one.before.endswith("\n") else "\n") + one.new
    block = _fenced("suggestion", text.replace("\r\n", "\n"))
    if block is None:
        return None
    return (first, max(one.end - 1, first), block)


def patch_block(found: SuggestedRepair) -> str | None:
    """Return the patch of a repair as a code block; None: it has letters that a report must not show as they are."""
    if found.is_ready and found.patch:
        return _fenced("diff", found.patch)
    return None


def _fenced(language: str, text: str) -> str | None:
    """Write a code block that its content cannot close."""
    lines = text.split("\n")
    if without_commands(text) != text or any(is_hidden(letter) for letter in set(text) - {"\n", "\t"}):
        return None
    fence = "```"
    while any(line.lstrip().startswith(fence) for line in lines):
        fence += "`"
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"
