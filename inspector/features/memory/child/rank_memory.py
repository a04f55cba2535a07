"""Follow the memory of one rank of a job: what the virtual rank refuses ends the task with its two lines."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from msgspec import field

from ctrace.inspector.capture.core.child_doors import child_door
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.events.run_events import ProblemMet
from ctrace.inspector.facts.outcome import Failure
from ctrace.inspector.facts.wire import Record
from ctrace.inspector.runs.capture_request import Options


class RankRecorder(Recorder):
    """Keeps what ends a run, and what could not be recorded: this task writes no log."""

    refused: list[Failure] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, record: Record, at: dict[str, object] | None = None) -> None:
        """Keep a failure or a problem; nobody reads the rest."""
        if isinstance(record, Failure):
            self.refused.append(record)
        elif isinstance(record, ProblemMet):
            self.problems.append(record.what)


@contextmanager
def as_rank(options: Options, when: When) -> Iterator[RankRecorder]:
    """Be the rank of the world that the options name in the block; without a world, nothing is different.

    Raises:
        TargetError: the program needs a value of another rank, or another world.
    """
    recorder = RankRecorder(TraceLog(None))
    with ExitStack() as active:
        if options.world is not None:
            for source in child_door("cluster").sources(options):
                active.enter_context(source(recorder, when))
        try:
            yield recorder
        finally:
            if recorder.refused:  # also if the program catches the exception and goes on
                first = recorder.refused[0]
                raise TargetError(first.message, first.todo)
