"""The private folder of torch's caches, which is kept between runs, and the keys that runs looked up in it.

The folder's name holds a proof that this user's ctrace made it: torch unpickles the files in its caches, and a cloned
repository may contain any folder. The keys are kept so that a missed one can be compared with the nearest earlier one
(`with_earlier_keys`).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ctrace.inspector.errors import RunError
from ctrace.inspector.facts.compile_time import CacheLookup, EarlierKey, KeyPart, LookupOutcome
from ctrace.inspector.facts.session import Problem
from ctrace.inspector.files.typed_json import read_object, typed
from ctrace.inspector.files.writing import write_text
from ctrace.inspector.findings.compile_time_view import KnownKey, nearest
from ctrace.inspector.runs import provenance
from ctrace.inspector.runs.saving import Saving
from ctrace.inspector.runs.store import Store

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session


PRIVATE = "private"
FOLDER = ".caches"


def private_folder(store: Store) -> Path:
    """Return the folder of the private caches, and create it.

    Raises:
        RunError: it cannot be created, or ctrace has no key to prove that the folder is its own.
    """
    root = store.root.absolute()
    todo = "use your own caches: --user-caches"
    try:
        # A folder of another name may come with a clone, and torch would unpickle what is in it.
        proof = provenance.proof_of(f"caches of {root.resolve()}")
        if not proof:
            raise RunError(f"no private caches in {root}: ctrace has no key to recognize its own folder", todo)
        folder = root / FOLDER / proof[:24]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore = root / ".gitignore"
        if not ignore.exists():
            write_text(ignore, "*\n")
    except OSError as error:
        raise RunError(f"{root} cannot hold private caches: {error.strerror or error}", todo) from None
    return folder


def cache_environment(kind: str | None, folder: str) -> dict[str, str | None]:
    """Return the environment variables that point torch's caches to the private folder and switch them on."""
    if kind != PRIVATE:
        return {}
    return {
        # Remote caches are off, because what they hold is not this run's; the variable to disable all is taken away.
        "TORCHINDUCTOR_CACHE_DIR": folder,
        "TRITON_CACHE_DIR": str(Path(folder) / "triton"),
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "1",
        "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE": "0",
        "TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE": "0",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": None,
    }


_KEYS = "keys.json"
_SCHEMA = 1
"""Raised when the file's fields change: an older file is then read as none."""
_COMPARED = ("aot_autograd", "fx_graph")
"""Caches whose keys have components."""
_MOST_KEYS = 64
"""The most keys to remember for each target and kind of caches; the newest stay."""


def with_earlier_keys(session: "Session", saving: Saving, store: Store, kind: str) -> "Session":
    """Compare missed keys with those of earlier runs of the same target, record that in the log, and remember all keys.

    Returns:
        The session with the comparison.
    """
    name = "an unsaved run"
    if saving.run is not None:
        name = saving.run.name
    of = f"{kind} {session.target.path} {session.target.name} {' '.join(session.target.args)}"
    path = store.root / FOLDER / _KEYS
    problems = session.problems
    try:
        table = _Table.read(path)
    except (OSError, ValueError) as error:
        table = _Table()
        if not isinstance(error, FileNotFoundError):
            what = f"keys of earlier runs cannot be read, so there is nothing to compare: {error}"
            problems = (*problems, Problem(what))
    known = table.keys(of)
    missed = [each for each in session.compile_time.lookups if each.outcome is LookupOutcome.MISS]
    found = list(_compared(missed, known))
    table.remember(of, name, session.compile_time.lookups)
    for each in found:
        saving.add(each)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        table.write(path)
    except OSError as error:
        problems = (*problems, Problem(f"cache keys were not saved for the next run: {error.strerror or error}"))
    compile_time = replace(session.compile_time, earlier=(*session.compile_time.earlier, *found))
    return replace(session, compile_time=compile_time, problems=problems)


def _compared(missed: Sequence[CacheLookup], known: Sequence[KnownKey]) -> list[EarlierKey]:
    found = {(each.cache, each.key): nearest(each, known) for each in missed if each.cache in _COMPARED}
    return [each for each in found.values() if each is not None]


class _Row(Struct, frozen=True):
    """A remembered key; `components` are positions in the table's parts."""

    of: str
    """Kind of caches and target."""
    run: str
    cache: str
    graph: str | None
    stage: str | None
    key: str
    components: tuple[int, ...]

    def is_same(self, other: "_Row") -> bool:
        """Whether both are the same key of the same graph part."""
        return self._identity() == other._identity()

    def _identity(self) -> tuple[str | None, ...]:
        return self.of, self.cache, self.graph, self.stage, self.key


class _Table:
    """The keys of earlier runs; equal components are stored once."""

    def __init__(self) -> None:
        self._parts: dict[KeyPart, int] = {}
        self._rows: list[_Row] = []

    @classmethod
    def read(cls, path: Path) -> "_Table":
        """Read the table.

        Raises:
            OSError: it cannot be read.
            ValueError: it does not have the form that `write` gives it.
        """
        data = read_object(path)
        if data.get("schema") != _SCHEMA:
            raise ValueError(f"its schema is {data.get('schema')!r:.20}")
        table = cls()
        for name, digest, text in typed(tuple[tuple[str, str, str], ...], data.get("parts"), "parts"):
            table._parts.setdefault(KeyPart(name, digest, text), len(table._parts))
        table._rows = list(typed(tuple[_Row, ...], data.get("keys"), "keys"))
        numbers = (number for row in table._rows for number in row.components)
        if not all(0 <= number < len(table._parts) for number in numbers):
            raise ValueError("a component is missing")
        return table

    def keys(self, of: str) -> list[KnownKey]:
        """Return the keys of a target, the newest last."""
        parts = list(self._parts)
        return [
            KnownKey(row.run, row.cache, row.graph, row.stage, row.key, tuple(parts[each] for each in row.components))
            for row in self._rows
            if row.of == of
        ]

    def remember(self, of: str, run: str, lookups: Sequence[CacheLookup]) -> None:
        """Add the keys of a run; drop the same keys of older runs, and the oldest keys beyond the limit."""
        for each in lookups:
            if each.key is None or each.cache not in _COMPARED:
                continue
            numbers = tuple(self._parts.setdefault(part, len(self._parts)) for part in each.components)
            new = _Row(of, run, each.cache, each.graph, each.stage, each.key, numbers)
            self._rows = [*(row for row in self._rows if not row.is_same(new)), new]
        ours = [row for row in self._rows if row.of == of][-_MOST_KEYS:]
        # A limit for all other targets together, so that the file does not grow with each new model.
        others = [row for row in self._rows if row.of != of][-4 * _MOST_KEYS :]
        self._rows = [*others, *ours]

    def write(self, path: Path) -> None:
        """Write the table, without components that no key uses any more.

        Raises:
            OSError: it cannot be written.
        """
        used = dict.fromkeys(number for row in self._rows for number in row.components)
        numbers = {old: new for new, old in enumerate(used)}
        parts = list(self._parts)
        keys = [replace(row, components=tuple(numbers[each] for each in row.components)) for row in self._rows]
        data = {"schema": _SCHEMA, "parts": [_row_of(parts[old]) for old in used], "keys": to_builtins(keys)}
        write_text(path, json.dumps(data) + "\n")


def _row_of(part: KeyPart) -> list[str]:
    return [part.name, part.digest, part.text]
