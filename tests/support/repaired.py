"""Cases of source repairs: a program before, where its finding is, and the program after.

A file has the cases of one repair. Each begins with a line `=== name` and lines `key: value`: `at` is text of the
finding's line, `rewrite` which rewrite is meant (1), `inputs` the calls to make with `f`, as a Python list of tuples,
`as` is `tabs` or `crlf`, `names` what the finding names. Then follow the program, and after a line `--- after` what the
repair makes of it, or `--- nothing`.
"""

import os
from pathlib import Path
from typing import NamedTuple

from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite
from ctrace.inspector.features.fix.repairs.source import all_repairs
from tests.support.places import TESTS

FOLDER = TESTS / "inspector/features/fix/repairs/source/cases"
REPAIRS = {repair.name: repair for repair in all_repairs()}
UPDATE = os.environ.get("CTRACE_UPDATE_GOLDEN") == "1" and not os.environ.get("CI")


class Case(NamedTuple):
    """One case of a file."""

    name: str
    about: dict[str, str]
    before: str
    after: str | None
    """None: the repair must find nothing."""

    def spelled(self, text: str) -> str:
        """Return a text with the tabs or the line ends of the case."""
        form = self.about.get("as", "")
        if form == "tabs":
            text = "\n".join(_tabbed(line) for line in text.split("\n"))
        return text.replace("\n", "\r\n") if form == "crlf" else text

    @property
    def place(self) -> RepairPlace:
        """Where the finding of the case is."""
        at = self.about["at"]
        line = next(number for number, text in enumerate(self.before.split("\n"), 1) if at in text)
        names = tuple(self.about.get("names", "").split())
        return RepairPlace("/model.py", self.spelled(self.before), line, "f", names)

    def rewrite(self, repair: SourceRepair) -> SourceRewrite | None:
        """Return the rewrite that is meant; every one of the repair is Python and says what it does."""
        found = list(repair.find(self.place))
        for one in found:
            compile(one.source, "model.py", "exec")
            assert one.source != self.spelled(self.before)
            assert one.summary.endswith("."), one.summary
            assert one.question is None or one.question.endswith(("?", "here.")), one.question
        wanted = int(self.about.get("rewrite", "1"))
        return found[wanted - 1] if len(found) >= wanted else None


def _tabbed(line: str) -> str:
    bare = line.lstrip(" ")
    return "\t" * ((len(line) - len(bare)) // 4) + bare


def cases(file: Path) -> list[Case]:
    """Read the cases of a file."""
    found = []
    for part in file.read_text(encoding="utf-8").split("=== ")[1:]:
        head, _, text = part.partition("\n\n")
        name, *lines = head.split("\n")
        about = dict(line.split(": ", 1) for line in lines)
        before, mark, after = text.partition("--- ")
        kind, _, rest = after.partition("\n")
        assert mark, name
        found.append(
            Case(name, about, before.rstrip("\n") + "\n", None if kind == "nothing" else rest.rstrip("\n") + "\n")
        )
    return found


def update(file: Path, repair: SourceRepair) -> None:
    """Write what the repair makes of each case into its file; a case that says `nothing` stays."""
    text = ""
    for case in cases(file):
        about = "".join(f"\n{key}: {value}" for key, value in case.about.items())
        text += f"=== {case.name}{about}\n\n{case.before}"
        rewrite = case.rewrite(repair) if case.after is not None else None
        if case.after is None:
            text += "--- nothing\n\n"
        else:
            assert rewrite is not None, f"{file.stem}: {case.name}: no rewrite"
            new = rewrite.source.replace("\r\n", "\n").replace("\t", "    ")
            text += f"--- after\n{new.rstrip()}\n\n"
    file.write_text(text.rstrip() + "\n", encoding="utf-8")


def all_cases() -> list[tuple[str, Case]]:
    """Return every case with the name of its repair."""
    return [(file.stem, case) for file in sorted(FOLDER.glob("*.txt")) for case in cases(file)]
