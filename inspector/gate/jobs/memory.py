"""Which job fits into memory beside those that run."""

from collections.abc import Iterable, Sequence
from statistics import median

from ctrace.inspector.gate.model import Job

_GUESS = 1 << 30
"""Bytes that a job is thought to need while none has ended; a process with torch and a small model holds half of it."""


class Room:
    """Knows what jobs need of a budget of bytes, from those that ended."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._of_model: dict[str, int] = {}

    def fitting(self, waiting: Iterable[Job], running: Sequence[tuple[Job, int]]) -> Job | None:
        """Give the first job that fits beside those that run, of which it is known what they hold; with none, any."""
        if not running:
            return next(iter(waiting), None)
        taken = sum(max(self._need(job), held) for job, held in running)
        return next((job for job in waiting if taken + self._need(job) <= self._budget), None)

    def learn(self, job: Job, peak: int) -> None:
        """Take note of what a job held at most; 0: that was not measured."""
        model = job.key.model
        if peak:
            self._of_model[model] = max(peak, self._of_model.get(model, 0))

    def _need(self, job: Job) -> int:
        """Go by the same model, or else by what is usual."""
        known = self._of_model.get(job.key.model)
        if known is not None:
            return known
        return int(median(self._of_model.values())) if self._of_model else _GUESS
