"""The lock as tests see it: what they may show, and what they showed, gathered over processes and written once."""

import json
from functools import cached_property
from pathlib import Path

from ctrace.inspector.gate.lock.file import load_lock, lock_text, parse_lock, write_lock, writing_lock
from ctrace.inspector.gate.model import Baseline, JobKey, Lock


class LockOfTests:
    """The lock's file, and what the tests of this session showed."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.unknown: set[str] = set()
        """Checks that the lock does not know."""
        self._root = root
        self._seen: dict[str, dict[JobKey, Baseline]] = {}

    @cached_property
    def lock(self) -> Lock:
        """Read the lock, once.

        Raises:
            LockError: it cannot be read, or something in it is wrong.
        """
        return load_lock(self.path)

    def keep(self, shown: Lock) -> None:
        """Take note of what checks showed."""
        for torch, jobs in shown.sections.items():
            self._seen.setdefault(torch, {}).update(jobs)

    @property
    def kept(self) -> int:
        """Count the checks that are to be written down."""
        return sum(map(len, self._seen.values()))

    def to_text(self) -> str:
        """Write what this process saw, for the one that writes the file."""
        return json.dumps({"seen": lock_text(Lock(self._seen)), "unknown": sorted(self.unknown)})

    def take(self, text: str) -> None:
        """Add what `to_text` wrote in another process."""
        data = json.loads(text)
        self.keep(parse_lock(data["seen"], str(self.path)))
        self.unknown.update(data["unknown"])

    def write(self) -> bool:
        """Put what was kept into the file, and forget tests whose file is gone; give whether that changed anything.

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
