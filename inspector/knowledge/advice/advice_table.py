"""Read a table of advice, and parse each entry only when it is needed.

The tables are long, and a run needs few of their entries. So the table splits its text at the keys, which is fast, and
parses an entry at the first access.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

_KEY = re.compile(r"^(?![#\s])(?P<key>[^:\n]+):[ \t]*\n", re.MULTILINE)


Value = TypeVar("Value")


class LazyTable(Mapping[str, Value], Generic[Value]):
    """The entries of some YAML files, keyed by top-level key; each such key must be alone on its line."""

    def __init__(self, files: tuple[Path, ...], make: Callable[[dict[str, Any]], Value]) -> None:
        self._make = make
        self._texts: dict[str, str] = {}
        self._made: dict[str, Value] = {}
        for file in files:
            text = file.read_text(encoding="utf-8")
            keys = list(_KEY.finditer(text))
            ends = [key.start() for key in keys[1:]] + [len(text)]
            for key, end in zip(keys, ends, strict=True):
                self._texts[key["key"].strip('"')] = text[key.end() : end]

    def __getitem__(self, key: str) -> Value:
        if key not in self._made:
            self._made[key] = self._make(_parse(self._texts[key]))
        return self._made[key]

    def __contains__(self, key: object) -> bool:
        return key in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def _parse(text: str) -> dict[str, Any]:
    import yaml  # slow to import, and a model without findings does not need it

    data: dict[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return data
