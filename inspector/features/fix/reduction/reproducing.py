"""Make a reproducer: find a small program that shows the finding, reduce it, and verify it in a fresh process.

The last form of the program shows the finding by an error or, where that is impossible, in torch's log. It then runs in
a new Python process without ctrace, and its output must show the finding.
"""

import ast
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.diagnosis import Finding
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.fix.reduction.finding import (
    Sought,
    gbs_of,
    is_called,
    is_reason,
    is_shown,
    shape_of,
    title_in,
)
from ctrace.inspector.features.fix.reduction.reduced_program import Edit, Program
from ctrace.inspector.features.fix.reduction.reduction_edits import without_one
from ctrace.inspector.features.fix.reduction.reduction_trials import NAME, Reducer, Tries
from ctrace.inspector.features.fix.reduction.saved_reproducers import Reproducer, written
from ctrace.inspector.features.fix.reduction.starts import (
    SEED,
    Described,
    StartProgram,
    Starts,
    after_imports,
    compile_calls,
    has_backends,
    imports_of,
    with_fullgraph,
    without,
    without_fullgraph,
)
from ctrace.inspector.features.fix.repairs.trial_runs import SearchBudget
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.files.writing import write_text
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.target import ProgramTarget, Resolved

Say = Callable[[str], None]
_FIRST_SECONDS = 60.0
"""The first run has no time to go by; a small program that compiles once takes seconds."""
_LEAST_SECONDS = 5.0
"""The least limit of a candidate: it may compile what the original does not."""
_LEAST_FIRST_SECONDS = 20.0
"""What the first run gets where the budget is nearly spent: less could not import torch."""
_TIMES_AS_LONG = 5.0
"""A candidate that takes this many times the original's time has become another program."""


class Reproduction:
    """One search for a reproducer."""

    def __init__(
        self, session: Session, sought: Sought, resolved: Resolved, options: Options, budget: SearchBudget, say: Say
    ) -> None:
        self._session = session
        self._sought = sought
        self._resolved = resolved
        self._options = options
        self._budget = budget
        self._say = say
        self._keeps_backend = 0
        self._interrupted = False
        self._titles: dict[str, str] = {}
        """The title of the finding in each program that shows it."""
        self._seconds = 0.0
        """How long the last compiled try took."""
        self._overtime = budget.left or 0.0
        """Seconds after the budget to find a first program: without one there is no result at all."""

    def run(self) -> Reproducer:
        """Search until nothing is left to try, or the budget is spent.

        Raises:
            TargetError: no program that this search can write shows the finding outside of the target.
        """
        began = time.monotonic()
        self._say("looking at the target's calls")
        with Tries(limit=_FIRST_SECONDS) as tries:
            described = self._described(tries)
            starts = list(Starts(self._resolved, self._options, self._sought, described).all())
            # In the server, once: each candidate is a fork of it, and does not import them again.
            tries.preload(imports_of(starts))
            start = self._first(starts, tries, described)
            reducer = self._reducer(start.program, tries)
            try:
                reducer.run()
            except KeyboardInterrupt:
                self._interrupted = True
            program, form = self._formed(reducer.best, tries)
            sought = replace(self._sought, title=self._title_of(program, reducer.best, tries))
            count = tries.count
        self._say("running the result in a fresh process")
        text, lines = written(program.text, program.anchor_lines, sought, self._session.environment)
        made = Reproducer(
            sought=sought,
            text=text,
            line=lines[-1] if lines else None,
            form=form,
            start=start.what,
            environment=self._session.environment,
            lines=sum(bool(each.strip()) for each in text.splitlines()),
            lines_before=start.program.line_count,
            tries=count,
            seconds=time.monotonic() - began,
            verified=False,
            output="",
            is_complete=reducer.is_complete,
            interrupted=self._interrupted,
        )
        # Twice the time, since this process imports torch itself.
        ran = verified(text, self._sought, lines, _FIRST_SECONDS * 2)
        return replace(made, verified=ran.shows, output=ran.output, seconds=time.monotonic() - began)

    def _title_of(self, program: Program, reduced: Program, tries: Tries) -> str:
        """Return the title of the finding as the program shows it; its code and values are not those of the target."""
        title = self._titles.get(program.text) or self._titles.get(reduced.text)
        if title:
            return title
        # With fullgraph, torch raises an exception in the place of the break.
        split = program.edited(without_fullgraph)
        if split is not None and self._shows(split, tries) and self._titles[split.text]:
            return self._titles[split.text]
        return self._sought.title

    # The start

    def _described(self, tries: Tries) -> Described:
        """Run the target in eager; a program is reduced as a whole."""
        if isinstance(self._resolved, ProgramTarget):
            return Described()
        found = tries.describe(self._request(), list(self._wanted()))
        frames = [each for each in found["frames"] if each["calls"]]
        frames.sort(key=lambda each: each["order"])
        return Described(tuple(found["calls"]), tuple(frames), found["error"])

    def _request(self) -> CaptureRequest:
        assert not isinstance(self._resolved, ProgramTarget)
        path = None
        if self._resolved.path is not None:
            path = str(self._resolved.path)
        return CaptureRequest("model", path, self._resolved.module, self._resolved.name, (), self._options, "")

    def _wanted(self) -> Iterable[tuple[str, int]]:
        """Yield the places whose functions are called alone: those on the stack of the finding, inner ones first."""
        if self._sought.file:
            yield self._sought.file, self._sought.line
        for each in self._session.breaks:
            if (each.file, each.line) == (self._sought.file, self._sought.line):
                if each.paths:
                    path = each.paths[0]
                else:
                    path = ()
                yield from ((one.file, one.line) for one in reversed(path) if Path(one.file).is_file())
                return

    def _first(self, starts: list[StartProgram], tries: Tries, described: Described) -> StartProgram:
        """Return the first start that shows the finding."""
        tried: set[str] = set()
        for each in starts:
            if each.program.text in tried:
                continue
            tried.add(each.program.text)
            self._say(f"starting from {each.what}")
            # To drop `backend="eager"` makes a program smaller, but then Inductor compiles each further candidate.
            calls = len(compile_calls(ast.parse(each.program.text)))
            if has_backends(each.program.text, calls):
                self._keeps_backend = calls
            else:
                self._keeps_backend = 0
            tries.limit = self._limit()
            if self._shows(each.program, tries):
                return each
            left = self._budget.left
            if left is not None and left < -self._overtime:
                what = f"{self._sought.id}: no program showed it within the time, {_tried(len(tried), len(starts))}"
                raise TargetError(what, "name more time, such as --budget 10m")
        why = ""
        if described.error:
            why = f": {described.error}"
        what = f"{self._sought.id}: no program of one file shows it outside of the target{why}"
        raise TargetError(what, "name another finding, or make the target need fewer files")

    def _limit(self) -> float:
        """Return the seconds that a start may take: not many more than are left."""
        left = self._budget.left
        if left is None:
            return _FIRST_SECONDS
        return min(_FIRST_SECONDS, max(left, _LEAST_FIRST_SECONDS))

    # The reduction

    def _reducer(self, program: Program, tries: Tries) -> Reducer:
        tries.limit = max(_LEAST_SECONDS, _TIMES_AS_LONG * self._seconds)

        def say(text: str) -> None:
            self._say(f"{self._sought.words}: {text}")

        return Reducer(program, lambda each: self._shows(each, tries), is_spent=lambda: self._budget.is_spent, say=say)

    def _shows(self, program: Program, tries: Tries) -> bool:
        """Whether a program shows the finding, and runs without torch.compile."""
        lines = program.anchor_lines
        if not has_backends(program.text, self._keeps_backend) or "torch.compile(" not in program.text:
            return False
        # Compiled first: most candidates do not show the finding, and need no second run.
        ran = tries.run(program.text)
        self._seconds = ran.seconds
        if ran.timed_out or not is_shown(self._sought, ran.session, ran.file, lines):
            return False
        if not _is_expected(ran.session, self._sought):
            return False
        eager = tries.run(program.text, eager=True)
        # What fails without torch.compile as well is an error of the reduced program.
        if eager.session.failure is not None or eager.status != 0:
            return False
        self._titles[program.text] = title_in(self._sought, ran.session, ran.file, lines)
        return self._sought.what is not Finding.DANGER or self._is_of_change(program, tries)

    def _is_of_change(self, program: Program, tries: Tries) -> bool:
        """Whether results agree without the change that is sought: they may differ for another reason."""
        for word in self._sought.same:
            for edit in without_one(program.tree, word):
                made = program.edited(edit)
                if made is not None and "torch.compile(" in made.text and self._passes(made, tries):
                    return True
        return not self._sought.same

    def _passes(self, program: Program, tries: Tries) -> bool:
        ran = tries.run(program.text)
        return not ran.timed_out and ran.session.failure is None and ran.status == 0

    def _formed(self, program: Program, tries: Tries) -> tuple[Program, str]:
        """Write the last form of the program, and drop the seed if nothing is random."""
        plain = None
        if "rand" not in program.text:
            plain = program.edited(lambda tree: without(tree, SEED))
        if plain is not None and self._shows(plain, tries):
            program = plain
        if self._sought.what is Finding.BREAK and "fullgraph=True" in program.text:
            return program, "fullgraph=True raises"
        for name, edit in forms(self._sought.what):
            made = program.edited(edit)
            if made is not None and self._shows(made, tries):
                return made, name
        is_raised = self._sought.what in (Finding.FAILURE, Finding.DANGER)
        return program, "it raises" if is_raised else "TORCH_LOGS shows it"


def _tried(number: int, of: int) -> str:
    if number < of:
        return f"of which {number} of {of} were tried"
    return f"all {of} were tried"


def _is_expected(session: Session, sought: Sought) -> bool:
    """Whether a run fails only in the way that the finding fails."""
    failure = session.failure
    if failure is None or sought.what in (Finding.FAILURE, Finding.DANGER):
        return True
    # What Dynamo raises in the place of a break or a recompilation, with fullgraph=True or error_on_recompile.
    return failure.type in ("Unsupported", "RecompileError", "UserError", "TorchRuntimeError")


_SKIPS = "print(torch._dynamo.utils.counters['frames'])"


def forms(what: Finding) -> Iterator[tuple[str, Edit]]:
    """Yield the forms in which a program may show a finding, the clearest first, each with its name."""
    match what:
        case Finding.BREAK:
            yield "fullgraph=True raises", with_fullgraph
            yield "torch logs the graph break", lambda tree: after_imports(tree, _log("graph_breaks"))
        case Finding.RECOMPILE:
            error = "torch._dynamo.config.error_on_recompile = True"
            yield "error_on_recompile raises", lambda tree: after_imports(tree, error)
            yield "torch logs the recompilation", lambda tree: after_imports(tree, _log("recompiles"))
        case Finding.SKIP:
            yield "torch counts fewer compiled frames than frames", _counting


def _log(what: str) -> str:
    return f"torch._logging.set_logs({what}=True)"


def _counting(tree: ast.Module) -> bool:
    tree.body += ast.parse(_SKIPS).body
    return True


_RAISED = re.compile(r"(?:\w+\.)*(\w+): ?(.*)")
_LONGEST = 20_000
"""Characters of a program's output that are kept, the last ones: the error is at the end."""


class FreshRun(Struct, frozen=True):
    """A fresh run."""

    status: int
    output: str
    shows: bool


def verified(text: str, sought: Sought, lines: tuple[int, ...], seconds: float) -> FreshRun:
    """Run a program as `python repro.py`, in an empty folder."""
    # As somebody else runs it, with torch's defaults.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("TORCH_", "TORCHDYNAMO", "CTRACE"))
    }
    with scratch("repro") as folder:
        write_text(folder / NAME, text)
        try:
            done = subprocess.run(
                [sys.executable, NAME],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return FreshRun(-1, "", shows=False)
        # Python may name the file by its real path, where the folder for temporary files is a link.
        output = done.stdout.decode("utf-8", "replace")[-_LONGEST:].replace(f"{os.path.realpath(folder)}/", "")
        output = output.replace(f"{folder}/", "")
    return FreshRun(done.returncode, output, is_in(output, done.returncode, sought, lines))


def is_in(output: str, status: int, sought: Sought, lines: tuple[int, ...]) -> bool:
    """Whether the output of a program shows a finding: the same id at its line, a recompilation, or the exception."""
    match sought.what:
        case Finding.BREAK:
            return set(sought.ids[:1]) <= gbs_of(output) and is_called(sought, output) and _names(output, sought, lines)
        case Finding.RECOMPILE:
            return is_reason(sought, output) and _names(output, sought, lines)
        case Finding.SKIP:
            counts = dict(re.findall(r"'(total|ok)': (\d+)", output))
            return status == 0 and int(counts.get("ok", 0)) < int(counts.get("total", 0))
        case _:
            raised = [match for each in output.splitlines() if (match := _RAISED.match(each)) is not None]
            return status != 0 and any(each[1] in sought.ids and shape_of(each[2]) == sought.shape for each in raised)


def _names(output: str, sought: Sought, lines: tuple[int, ...]) -> bool:
    """Whether an output names the line of the finding."""
    file, numbers = (Path(sought.library).name, (sought.line,)) if sought.library else (NAME, lines)
    if not numbers:
        return True
    either = "|".join(map(str, numbers))
    return bool(re.search(rf"{re.escape(file)}\"?(?:, line |:)(?:{either})\b", output))
