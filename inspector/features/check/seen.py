"""Collect the results of checks in tests, also from other processes, and write the lock once."""

import json
from functools import cached_property
from pathlib import Path

from ctrace.inspector.features.check.gate_model import Baseline, JobKey, Lock
from ctrace.inspector.features.check.lock_file import load_lock, lock_text, parse_lock, write_lock, writing_lock


class LockOfTests:
    """The lock's file, and the results of the tests in this pytest session."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.unknown: set[str] = set()
        """Checks that the lock does not have."""
        self._root = root
        self._seen: dict[str, dict[JobKey, Baseline]] = {}

    @cached_property
    def lock(self) -> Lock:
        """Read the lock, once.

        Raises:
            LockError: it cannot be read, or it is invalid.
        """
        return load_lock(self.path)

    def keep(self, shown: Lock) -> None:
        """Record the results of checks."""
        for torch, jobs in shown.sections.items():
            self._seen.setdefault(torch, {}).update(jobs)

    @property
    def kept(self) -> int:
        """Return the number of checks to write."""
        return sum(map(len, self._seen.values()))

    def to_text(self) -> str:
        """Return this process's results as text, for the process that writes the file."""
        return json.dumps({"seen": lock_text(Lock(self._seen)), "unknown": sorted(self.unknown)})

    def take(self, text: str) -> None:
        """Add the results that `to_text` returned in another process."""
        data = json.loads(text)
        self.keep(parse_lock(data["seen"], str(self.path)))
        self.unknown.update(data["unknown"])

    def write(self) -> bool:
        """Write the results to the file, and remove tests whose file is gone; return whether the lock changed.

        Raises:
            LockError: it cannot be read or written.
        """
        with writing_lock(self.path) as before:
            sections = self._sections(before)
            if sections == before.sections:
                return False
            write_lock(self.path, Lock(sections))
            return True

    def _sections(self, before: Lock) -> dict[str, dict[JobKey, Baseline]]:
        return {torch: {key: jobs[key] for key in jobs if self._is_there(key)} for torch, jobs in self._all(before)}

    def _all(self, before: Lock) -> list[tuple[str, dict[JobKey, Baseline]]]:
        versions = dict.fromkeys((*before.sections, *self._seen))
        return [(torch, {**before.sections.get(torch, {}), **self._seen.get(torch, {})}) for torch in versions]

    def _is_there(self, key: JobKey) -> bool:
        return not key.is_of_test or (self._root / key.model.partition("::")[0]).is_file()
