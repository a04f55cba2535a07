"""The rules of a SARIF report: one for each kind of finding, and one for each gb id that was met."""

import re
from typing import Any

from ctrace.inspector.breaks.lessons import Lesson, lesson
from ctrace.inspector.errors import TargetError
from ctrace.inspector.gate.model import SiteKey
from ctrace.inspector.gate.verdict import FindingKind
from ctrace.reports import format as fmt
from ctrace.reports.gate.words import KINDS

_GB = re.compile(r"GB\d{4}")
_HELP = {
    FindingKind.NEW_SITE: "Change the code as the result says, allow the place in the policy with a reason, or, if it "
    "is wanted, keep it in the lock with `ctrace check --update`.",
    FindingKind.MORE_TIMES: "Look at what calls the place; if it is wanted, run `ctrace check --update`.",
    FindingKind.MORE: "Look closer with `ctrace explain`; if it is wanted, run `ctrace check --update`.",
    FindingKind.LIMIT: "Change the model, or raise the limit in the policy.",
    FindingKind.NOTHING_COMPILED: "See with `ctrace explain` why no graph came of the model.",
    FindingKind.DOUBT: "See with `ctrace explain` what could not be read, or what disagrees.",
    FindingKind.NOT_MEASURED: "Name a target that measures it, or take the limit out of the policy.",
    FindingKind.FAILED: "Run the model without torch.compile and put right what it raises.",
    FindingKind.COMPILE_FAILED: "See with `ctrace explain` what torch.compile raised.",
    FindingKind.CRASHED: "Run the model alone with `ctrace explain`; its last lines say what happened.",
    FindingKind.TIMEOUT: "Raise `timeout` in the policy, or make the inputs smaller.",
    FindingKind.WRONG: "Put right the line of the policy or of the lock that the result names.",
    FindingKind.VANISHED: "Name the model in the policy again, or forget it with `ctrace check --update`.",
    FindingKind.NO_SECTION: "Run `ctrace check --update` once with this version of torch.",
}


def gb_of(site: SiteKey) -> str | None:
    """Give the gb id that a site is known by; None for one that has none."""
    return next((cause for cause in site.causes if _GB.fullmatch(cause)), None)


def kind_rule(kind: FindingKind) -> dict[str, Any]:
    """Describe a kind of finding."""
    title = f"{KINDS[kind][:1].upper()}{KINDS[kind][1:]}."
    return _rule(str(kind), title, title, _HELP[kind])


def gb_rule(gb: str) -> dict[str, Any]:
    """Describe a kind of graph break, with what `ctrace breaks --explain` knows of it."""
    known = _lesson(gb)
    if known and known.entry:
        return _rule(gb, f"Graph break: {known.entry.title}", known.entry.why, known.entry.fix)
    if known and known.torch:
        told = known.torch
        return _rule(gb, f"Graph break: {told.title}", told.explanation or told.title, " ".join(told.hints))
    return _rule(gb, f"Graph break {gb}", "A graph break that this ctrace knows nothing more about.", "")


def _lesson(gb: str) -> Lesson | None:
    try:
        return lesson(gb)
    except TargetError:  # an id of another torch than the one that is installed here
        return None


def _rule(name: str, title: str, why: str, fix: str) -> dict[str, Any]:
    help_text = fmt.plain(fix or why)
    return {
        "id": name,
        "shortDescription": {"text": fmt.one_line(title)},
        "fullDescription": {"text": fmt.plain(why)},
        "help": {"text": help_text, "markdown": help_text},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["torch.compile"]},
    }
