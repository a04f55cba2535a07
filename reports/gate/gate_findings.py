"""Write a finding in plain lines; merge findings that several jobs share.

Show the repairs that `ctrace check --suggest` found: in words, as SARIF fixes, and as code for a review.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.diagnosis import Replacement, SuggestedRepair
from ctrace.inspector.facts.findings import Cost
from ctrace.inspector.facts.sites import SiteKey, SiteKind
from ctrace.inspector.features.check.check_model import EXITS, CheckedJob, CheckOutcome, FindingKind, GateFinding
from ctrace.inspector.grouping import collected
from ctrace.reports import format as fmt
from ctrace.reports.escape import is_hidden, without_commands
from ctrace.reports.gate.gate_words import GRAVEST_FIRST, Spot, cost, numbers, spot


def suggestion_lines(found: SuggestedRepair | None) -> Iterator[str]:
    """Yield what the search for a repair found, in one or two lines."""
    if found is None:
        return
    if not found.proved:
        tried = fmt.framed("", found.repair, " is unproved, because ")
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
    changes = collected((each.file, _replacement(each)) for each in found.replacements)
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
    # An insertion behind the last line of a file that has no line end.
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
    # A patch with escapes in place of letters would not apply, so it is left out as a whole.
    if without_commands(text) != text or any(is_hidden(letter) for letter in set(text) - {"\n", "\t"}):
        return None
    fence = "```"
    while any(line.lstrip().startswith(fence) for line in lines):
        fence += "`"
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


# Chosen: code in the headline, which pytest's summary and GitHub show in one line.
_CODE = 120
LONGEST = 500
"""Most characters of a line, so that a hostile name cannot bury the rest."""


class SharedFinding(Struct, frozen=True):
    """A finding, and the jobs that have it."""

    finding: GateFinding
    checked: tuple[CheckedJob, ...]
    """The jobs that have the finding; empty if it is not about a job."""
    spot: Spot | None

    @property
    def first(self) -> CheckedJob | None:
        """The first job that has the finding."""
        if self.checked:
            return self.checked[0]
        return None


def shared_findings(outcome: CheckOutcome) -> list[SharedFinding]:
    """Return each finding once, the gravest first, then the costliest; merge findings of one site in several jobs."""
    jobs = collected((identity(finding, checked), (finding, checked)) for finding, checked in _pairs(outcome))
    merged = [_merged(same, outcome) for same in jobs.values()]
    return sorted(merged, key=lambda each: _weight(each.finding))


def _pairs(outcome: CheckOutcome) -> Iterator[tuple[GateFinding, CheckedJob | None]]:
    yield from ((finding, None) for finding in outcome.findings)
    yield from ((finding, one) for one in outcome.checked for finding in folded(one.findings))


def folded(findings: tuple[GateFinding, ...]) -> tuple[GateFinding, ...]:
    """Return a job's findings, one for each cause: a number that is read in a print goes with the print."""
    leading = {each.site.key for each in findings if each.site and each.site.follows is None}
    after: dict[SiteKey, list[GateFinding]] = {}
    first = []
    for each in findings:
        # Where the site that it follows is in the lock or allowed, that one is no finding, and this one stands alone.
        if each.site and each.site.follows in leading:
            after.setdefault(each.site.follows, []).append(each)
        else:
            first.append(each)
    # Taken from `after`, since two findings may have one site: the first one has its consequences.
    return tuple(_with(each, after) for each in first)


def _with(finding: GateFinding, after: dict[SiteKey, list[GateFinding]]) -> GateFinding:
    """Add the findings that the same change removes, and what they cost; take them out of `after`."""
    if finding.site is None:
        return finding
    consequences = after.pop(finding.site.key, [])
    if not consequences:
        return finding
    costs = [each.site.cost for each in (finding, *consequences) if each.site]
    ops = None
    if known := [cost.ops for cost in costs if cost.ops is not None]:
        ops = sum(known)
    cost = Cost(ops, sum(each.graphs for each in costs))
    return replace(finding, site=replace(finding.site, cost=cost), consequences=tuple(consequences))


def identity(finding: GateFinding, checked: CheckedJob | None) -> object:
    """Return the key of a finding: its site and numbers. Without a site, findings of two jobs never match."""
    same: object = (finding.file, finding.line, checked and checked.job)
    if finding.site:
        same = finding.site.key
    return finding.kind, finding.what, finding.was, finding.now, same


def _merged(same: list[tuple[GateFinding, CheckedJob | None]], outcome: CheckOutcome) -> SharedFinding:
    """Merge equal findings of several jobs into the finding of the job in which it costs most."""
    same = sorted(same, key=lambda pair: _weight(pair[0]))
    finding, checked = same[0]
    return SharedFinding(finding, tuple(one for _, one in same if one is not None), spot(finding, checked, outcome))


def _weight(finding: GateFinding) -> tuple[int, int, int]:
    gravity = GRAVEST_FIRST.index(EXITS[finding.kind])
    if finding.site is None:
        return gravity, 0, 0
    return gravity, -(finding.site.cost.ops or 0), -finding.site.cost.graphs


_SITES = {
    SiteKind.BREAK: "graph break",
    SiteKind.DISABLED: "call of a disabled function",
    SiteKind.SKIP: "function that runs eagerly",
    SiteKind.RECOMPILE: "recompilation",
    SiteKind.DANGER: "wrong result",
    SiteKind.CULPRIT: "line with wrong numbers",
}


def headline(finding: GateFinding, *, with_code: bool = True) -> str:
    """Write what a stranger needs first, such as "new graph break: `x.item()`"; ids and the place come after it.

    Leave out the code where it is shown beside the headline.
    """
    site = finding.site
    if site is None:
        return finding.what
    more = {FindingKind.NEW_SITE: "new ", FindingKind.MORE_TIMES: "more of a known "}.get(finding.kind, "")
    shown = ""
    if with_code:
        where = code(finding)
        begin, end = site.span or (0, 0)
        # A span is of the recorded line, which a log may lack.
        if site.source and 0 <= begin < end <= len(where):
            where = where[begin:end]
        shown = fmt.framed(": `", where and fmt.one_line(where, _CODE), "`")
    return f"{more}{_SITES[site.key.kind]}{shown} ({finding.what})"


def lines(finding: GateFinding, checked: CheckedJob | None, at: Spot | None) -> list[str]:
    """Write a finding as the terminal shows it: what, where, code, reason, cost, fix."""
    parts = [headline(finding), str(at or "")]
    if finding.site is not None:
        parts += [f"  {code(finding)}", finding.site.reason]
    parts += detail(finding, checked)
    parts += [f"→ {each}" for each in todo(finding)]
    # `one_line` drops the indent of code.
    return [f"{'  ' * part.startswith('  ')}{fmt.one_line(part, LONGEST)}" for part in parts if part.strip()]


def code(finding: GateFinding) -> str:
    """Return the source line of a finding's site, or else its statement."""
    site = finding.site
    if site:
        return site.source.strip() or site.key.text
    return ""


def detail(finding: GateFinding, checked: CheckedJob | None) -> list[str]:
    """Write a finding's numbers, its costs and what follows from it, if it has any."""
    after = [f"with it: {headline(each)}" for each in finding.consequences]
    return [each for each in (numbers(finding), cost(finding, checked), *after) if each]


def todo(finding: GateFinding) -> list[str]:
    """Return the site's fix, the proved repair and the finding's advice, each once."""
    every = [*suggestion_lines(finding.suggestion), finding.todo]
    if finding.site:
        every.insert(0, finding.site.fix)
    return [each for each in dict.fromkeys(every) if each.strip()]
