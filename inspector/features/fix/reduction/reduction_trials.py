"""Reduce a program as long as it still shows the finding: delta debugging over its syntax tree, in passes (`Reducer`).

The reducer knows nothing of torch: a question, `shows`, decides about every candidate. `Tries` answers it: it runs
candidates in forks of a process that has imported torch, and reads what each showed.
"""

import ast
import json
import os
import select
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from ctrace.inspector.errors import SetupError
from ctrace.inspector.facts.session import Session, Target
from ctrace.inspector.features.fix.reduction import inlining, reduction_edits
from ctrace.inspector.features.fix.reduction.reduced_program import Edit, Program
from ctrace.inspector.files.scratch import delete, new_scratch_folder
from ctrace.inspector.files.writing import write_text
from ctrace.inspector.log.reader import read
from ctrace.inspector.processes.boot import python
from ctrace.inspector.processes.spawned import Process, started
from ctrace.inspector.runs.capture_request import CaptureRequest
from ctrace.inspector.session.build import build

NAME = "repro.py"
# Torch reads these when it is imported, in the server: the user's logs would stand in each candidate's output.
_NOT_PASSED_ON = ("TORCH_LOGS", "TORCH_LOGS_OUT", "TORCH_TRACE")
_START_SECONDS = 180.0
"""Importing torch and the program's packages may take a minute on a busy machine."""
_GRACE = 10.0
"""How much later than its limit a candidate's answer may come; then the server is taken for dead."""


class Try(Struct, frozen=True):
    """One run of a candidate."""

    session: Session
    file: str
    output: str
    status: int
    timed_out: bool
    seconds: float


class Tries:
    """Runs candidates. Close it at the end."""

    def __init__(self, limit: float = 60.0) -> None:
        """Prepare to run candidates, each for at most `limit` seconds."""
        self.limit = limit
        self.count = 0
        self._folder = new_scratch_folder("repro")
        self._process: Process | None = None
        self._to = self._from = -1
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the server, and delete what the tries wrote."""
        self._end()
        delete(self._folder)

    def run(self, text: str, *, eager: bool = False) -> Try:
        """Run a candidate; with `eager`, torch.compile does nothing.

        Raises:
            SetupError: the server cannot start.
        """
        self.count += 1
        folder = self._folder / str(self.count)
        folder.mkdir(parents=True)  # the program may have deleted all temporary files
        file, log, output = folder / NAME, folder / "log", folder / "output"
        write_text(file, text)
        request = {"file": str(file), "log": str(log), "output": str(output), "seconds": self.limit, "eager": eager}
        answer = self.ask(request)
        if log.exists():
            session = build(read(log), Target(str(file)))
        else:
            session = Session()
        written = ""
        if output.exists():
            written = output.read_text(encoding="utf-8", errors="replace")
        delete(folder)
        return Try(session, str(file), written, answer["status"], answer["timed_out"], answer["seconds"])

    def describe(self, request: CaptureRequest, wanted: Sequence[tuple[str, int]]) -> dict[str, Any]:
        """Run a target in eager, and return how it calls its model and the functions at `wanted` places."""
        folder = self._folder
        write_text(folder / "request", request.to_json())
        result = folder / "described"
        asked = {
            "describe": str(folder / "request"),
            "folder": str(Path.cwd()),
            "wanted": list(wanted),
            "result": str(result),
            "output": str(folder / "output"),
            "seconds": self.limit,
        }
        self.ask(asked)
        if not result.exists():
            return {"calls": [], "frames": [], "error": "the target ended early or took too long"}
        found: dict[str, Any] = json.loads(result.read_bytes())
        return found

    def preload(self, imports: Sequence[str]) -> None:
        """Run import statements once, for all candidates."""
        self.ask({"imports": list(imports), "seconds": _START_SECONDS})

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request to the server, and return its answer."""
        if self._process is None:
            self._start()
        try:
            answer = self._exchange(request, request["seconds"] + _GRACE)
        except BaseException:  # Ctrl-C: the next answer would be of this request
            self._end()
            raise
        if answer is None:
            self._end()
            return {"status": -9, "timed_out": True, "seconds": self.limit}
        return answer

    def _start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
        theirs, self._to = os.pipe()
        self._from, mine = os.pipe()
        try:
            command = python("ctrace.inspector.features.fix.child.reduction_server")
            self._process = started(command, environment, mine, -3, stdin=theirs)
        except (OSError, RuntimeError) as error:
            raise SetupError(f"a process cannot be started: {error}", "end other processes, and try again") from None
        finally:
            # Only the server has its ends then, so that its death ends a read here.
            os.close(theirs)
            os.close(mine)
        if self._exchange({}, _START_SECONDS) is None:
            self._end()
            raise SetupError("torch could not be imported to try candidates", "ctrace doctor checks this environment")

    def _exchange(self, request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        try:
            os.write(self._to, json.dumps(request).encode() + b"\n")
        # The server has ended: a candidate may kill its parent.
        except OSError:
            return None
        while b"\n" not in self._buffer:
            if not select.select([self._from], [], [], seconds)[0]:
                return None
            data = os.read(self._from, 65536)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None
            for number in (self._to, self._from):
                os.close(number)
            self._buffer = b""


Shows = Callable[[Program], bool]
Say = Callable[[str], None]
_MOST_ROUNDS = 6
"""Rounds of shortening; after six, one more seldom finds anything."""


class SpentError(Exception):
    """The budget is spent."""


class Reducer:
    """One reduction; `best` is the smallest program so far that shows the finding."""

    def __init__(
        self,
        program: Program,
        shows: Shows,
        *,
        is_spent: Callable[[], bool] = lambda: False,
        say: Say = lambda _text: None,
    ) -> None:
        """Start from a program that shows the finding."""
        self.best = program
        self.tries = 0
        self.is_complete = False
        """Whether nothing was left to try."""
        self._shows = shows
        self._is_spent = is_spent
        self._say = say
        self._known: set[str] = {program.text}

    def run(self) -> Program:
        """Reduce until no edit is possible, or the budget is spent; return the smallest program."""
        try:
            for _ in range(_MOST_ROUNDS):
                before = self.best.text
                self._round()
                if self.best.text == before:
                    self.is_complete = True
                    break
        except SpentError:
            pass
        return self.best

    def _round(self) -> None:
        # From passes that drop much with each try to those that change a single number: the later ones, which have a
        # try for each node, find fewer nodes. Unread names go between them, or each of their parts would be tried.
        self._all_or_each(reduction_edits.strip)
        self._each(reduction_edits.unused)
        self._drop_statements()
        self._each(reduction_edits.unused)
        self._each(reduction_edits.unwrap)
        self._each(inlining.inline)
        self._each(reduction_edits.unused)
        self._drop_statements()
        self._each(inlining.drop)
        self._each(reduction_edits.simplify)
        self._each(reduction_edits.shrink)
        self._each(inlining.inline)
        self._each(reduction_edits.unused)

    # Kinds of passes

    def _each(self, source: Callable[[ast.Module], Iterator[Edit]]) -> None:
        """Try the edits of a pass one after the other; after a success, go on behind the same number of edits."""
        position = 0
        while True:
            edits = list(source(self.best.tree))
            if position >= len(edits):
                return
            if not self._try(edits[position]):
                position += 1

    def _all_or_each(self, source: Callable[[ast.Module], Iterator[Edit]]) -> None:
        """Try all edits of a pass at once, then each."""

        def all_at_once(tree: ast.Module) -> bool:
            # Edits address nodes by number, so the last one goes first.
            return bool([edit for edit in reversed(list(source(tree))) if edit(tree)])

        self._try(all_at_once)
        self._each(source)

    def _drop_statements(self) -> None:
        """Drop statements, large pieces first, block by block from the outside to the inside."""
        number = 0
        while True:
            paths = reduction_edits.block_paths(self.best.tree)
            if number >= len(paths):
                return
            self._drop_in(paths[number])
            number += 1

    def _drop_in(self, path: reduction_edits.BlockPath) -> None:
        size = len(reduction_edits.droppable(self.best.tree, path))
        while size:
            end = len(reduction_edits.droppable(self.best.tree, path))
            while end > 0:
                free = reduction_edits.droppable(self.best.tree, path)
                piece = free[max(end - size, 0) : end]
                # From the end: what comes later uses what comes before.
                self._try(reduction_edits.dropping(path, piece))
                end -= size
            size //= 2

    def _try(self, edit: Edit) -> bool:
        made = self.best.edited(edit)
        # Only what is smaller: two edits that undo each other would go on forever.
        if made is None or made.text in self._known or made.weight >= self.best.weight:
            return False
        if self._is_spent():
            raise SpentError
        self._known.add(made.text)
        self.tries += 1
        if not self._shows(made):
            return False
        self.best = made
        self._say(f"{made.line_count} lines, {self.tries} tries")
        return True
