"""Read untrusted YAML.

A policy becomes plain values with their lines (`read_yaml`), without objects, alias bombs and ambiguous values. A table
of GPUs becomes what PyYAML makes of it (`read_table`).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import yaml
from msgspec import Struct

from ctrace.inspector.errors import PolicyError, TargetError, shown
from ctrace.inspector.files.writing import check_regular, working_folder

_LARGEST = 1 << 18
"""Maximum size of a file in bytes."""
# PyYAML composes by recursion: a file of brackets alone would exhaust the stack.
_DEEPEST = 20
_MOST = 20_000
"""The maximum number of values in a file; a value that aliases repeat counts each time."""
_TAG = "tag:yaml.org,2002:"
_TEXTS = ("str", "timestamp", "int", "float", "bool", "null", "value")
"""The tags of plain values; other tags are errors, except those of lists and tables."""
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"[-+]?[0-9]{1,18}\.[0-9]{0,18}")
_FLAGS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_QUOTES = "quote text with : or # or a leading *"
_TODO = {
    "mapping values are not allowed": _QUOTES,
    "expected alphabetic or numeric character": _QUOTES,
    "undefined alias": _QUOTES,
    "'\\t' that cannot start any token": "indent with spaces, not with tabs",
    "cannot start any token": "put the text in quotes",
    "another document": "write one document: remove the line ---",
}
"""Advice, keyed by a fragment of PyYAML's message (6.0.3)."""
# PyYAML also raises these: for escapes such as "\UFFFFFFFF", invalid dates, an empty !!int, thousands of digits.
_BROKEN = (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

Value = None | bool | int | float | str | tuple["YamlNode", ...] | dict[str, "YamlNode"]


class YamlNode(Struct, frozen=True):
    """A value and its place."""

    value: Value
    file: str
    line: int
    """The line of its key, or the line of the value if it has no key; from 1."""
    name: str = ""
    """The keys that lead to it, such as `limits.breaks`; an entry of a list has the path of the list."""


def wrong(node: YamlNode, what: str, todo: str) -> PolicyError:
    """Return an error about a value."""
    return _error(node.file, node.line, what, todo)


def named(path: Path) -> str:
    """Return a short path for messages: relative to the working directory for a file below it."""
    full, here = path.absolute(), working_folder()
    return _one_line(str(full.relative_to(here) if full.is_relative_to(here) else full))


def read_yaml(path: Path) -> YamlNode:
    """Read a file.

    Raises:
        PolicyError: it cannot be read, or is not plain YAML.
    """
    try:
        data = _bytes(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise PolicyError(f"{named(path)} cannot be read: {_one_line(why)}", "name another policy") from None
    return parse_yaml(data, named(path))


def parse_yaml(data: bytes, file: str) -> YamlNode:
    """Parse the bytes of a file to values.

    Raises:
        PolicyError: they are not UTF-8 or not YAML, are nested too deeply or too large, or have duplicate keys.
    """
    if len(data) > _LARGEST:
        raise _error(file, 1, f"it is larger than {_LARGEST >> 10} KiB", "a policy is short: name another file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _error(file, line, "it is not UTF-8 text", "save it as UTF-8") from None
    root = _composed(text, file)
    if root is None:
        return YamlNode(None, file, 1)
    return _Plain(file).convert(root, 1, "", 0)


def read_table(path: Path, *, ours: bool) -> Any:
    """Read a file of GPUs, with dates, merge keys and all that PyYAML knows; `ours` marks a file that ctrace ships.

    Raises:
        TargetError: it cannot be read, is not YAML, or has duplicate keys.
    """
    try:
        data = _bytes(path)
        if len(data) > _LARGEST:
            raise TargetError(f"{path} is too large for a table of GPUs", "name another file")
        # The C loader is thirty times as fast, but deeply nested files crash the process.
        kind: Any = getattr(yaml, "CSafeLoader" if ours else "SafeLoader", yaml.SafeLoader)
        return _constructed(data.decode("utf-8"), kind, path)
    except OSError as error:
        raise TargetError(f"{path} cannot be read: {error.strerror}", "name another file") from None
    except ValueError:
        raise TargetError(f"{path} cannot be read: it is not UTF-8 text", "name another file") from None


def _constructed(text: str, kind: Any, file: Path) -> Any:
    try:
        loader = kind(text)
        root = loader.get_single_node()
        if root is None:
            return None
        _refuse_duplicates(root)
        return loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        line = ""
        if error.problem_mark is not None:
            line = f":{error.problem_mark.line + 1}"
        raise TargetError(f"{file}{line}: {shown(error.problem)}", "correct the YAML there") from None
    except _BROKEN as error:
        raise TargetError(f"{file} is not YAML: {shown(str(error) or type(error).__name__)}", "correct it") from None


def _refuse_duplicates(root: yaml.Node) -> None:
    """Refuse duplicate keys in a table of GPUs and in the tables in it: PyYAML silently keeps the last one."""
    tables = [root]
    if isinstance(root, yaml.MappingNode):
        tables += [value for _, value in root.value]
    for table in (each for each in tables if isinstance(each, yaml.MappingNode)):
        keys = set()
        for key in (key for key, _ in table.value if isinstance(key, yaml.ScalarNode)):
            if key.value in keys:
                raise yaml.MarkedYAMLError(problem=f"{shown(key.value)} is defined twice", problem_mark=key.start_mark)
            keys.add(key.value)


def _bytes(path: Path) -> bytes:
    """Return what a file contains, up to one byte more than it may have."""
    check_regular(path)
    with path.open("rb") as file:
        return file.read(_LARGEST + 1)


def _error(file: str, line: int, what: str, todo: str) -> PolicyError:
    return PolicyError(f"{file}, line {line}: {what}", todo)


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


class _Loader(yaml.SafeLoader):
    """Composes PyYAML's nodes, with limits on their number and depth."""

    depth = 0
    count = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node, within the limits on depth and number."""
        if self.depth > _DEEPEST:
            self._stop("lists and tables are nested too deeply")
        if self.count >= _MOST:
            self._stop(f"there are more than {_MOST} values")
        self.depth += 1
        self.count += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def _stop(self, why: str) -> NoReturn:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        raise yaml.MarkedYAMLError(problem=why, problem_mark=mark)


def _composed(text: str, file: str) -> yaml.Node | None:
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _error(file, _line(error), _words(error), _todo(error)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _error(file, line, "there is a character that YAML forbids", "remove it") from None
    except _BROKEN as error:
        line = 1
        if loader is not None:
            line = loader.line + 1
        raise _error(file, line, f"it is not YAML: {_words(error)}", "correct it there") from None


def _line(error: yaml.MarkedYAMLError) -> int:
    """Return the line of a mistake; for an unclosed value, return the line where the value begins."""
    open_ended = re.search("end of stream|stream end", error.problem or "")
    mark = (error.context_mark if open_ended else None) or error.problem_mark
    if not mark:
        return 1
    return mark.line + 1


def _words(error: Exception) -> str:
    """Return PyYAML's message as one short line."""
    if isinstance(error, yaml.MarkedYAMLError):
        problem = error.problem
    else:
        problem = str(error)
    if problem == "but found another document":
        return "there is a second document"
    text = _one_line(problem or type(error).__name__)
    if len(text) <= 80:
        return text
    return f"{text[:79]}…"


def _todo(error: yaml.MarkedYAMLError) -> str:
    return next((todo for part, todo in _TODO.items() if part in (error.problem or "")), "correct the YAML there")


class _Plain:
    """Converts PyYAML's nodes to values, and refuses more than the maximum number of values."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._left = _MOST

    def convert(self, node: yaml.Node, line: int, name: str, depth: int) -> YamlNode:
        """Convert a node and its children to a value."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise _error(self._file, line, "aliases repeat too much", "write it out, without & and *")
        match node:
            case yaml.MappingNode(tag=tag) if tag == f"{_TAG}map":
                return YamlNode(dict(self._pairs(node, name, depth)), self._file, line, name)
            case yaml.SequenceNode(tag=tag) if tag == f"{_TAG}seq":
                entries = (self.convert(each, each.start_mark.line + 1, name, depth + 1) for each in node.value)
                return YamlNode(tuple(entries), self._file, line, name)
            case yaml.ScalarNode(tag=tag) if tag.removeprefix(_TAG) in _TEXTS:
                return YamlNode(self._scalar(node, line), self._file, line, name)
        tag = node.tag.replace(_TAG, "!!")
        raise _error(self._file, line, f"the tag {shown(tag)} is not allowed", "leave it out")

    def _pairs(self, table: yaml.MappingNode, name: str, depth: int) -> Iterator[tuple[str, YamlNode]]:
        seen: dict[str, int] = {}
        for key_node, node in table.value:
            line = key_node.start_mark.line + 1
            key = self._key(key_node, line)
            if key in seen:
                first = f"the first time in line {seen[key]}"
                raise _error(self._file, line, f"{shown(key)} is defined twice, {first}", "take one of them out")
            seen[key] = line
            yield key, self.convert(node, line, ".".join(filter(None, (name, shown(key)))), depth + 1)

    def _key(self, node: yaml.Node, line: int) -> str:
        if node.tag == f"{_TAG}merge":
            raise _error(self._file, line, "the key << is not supported", "write its keys out")
        if not isinstance(node, yaml.ScalarNode):
            raise _error(self._file, line, "a list or table cannot be a key", "put a text with [ or { in quotes")
        if node.tag != f"{_TAG}str":
            what = f"the key {shown(node.value) or 'of no name'} is not a text in YAML"
            raise _error(self._file, line, what, "put it in quotes")
        return self._text(node, line)

    def _scalar(self, node: yaml.ScalarNode, line: int) -> bool | int | float | str | None:
        text, tag = self._text(node, line), node.tag.removeprefix(_TAG)
        if tag == "null" and text.lower() in ("", "~", "null"):
            return None
        if tag == "bool" and text.lower() in _FLAGS:
            return _FLAGS[text.lower()]
        if tag == "int" and _WHOLE.fullmatch(text):
            return int(text)
        # Other spellings stay text: in YAML 1.1, 0x10, 1:30 and 010 are numbers, which few authors expect.
        if tag == "float" and _DECIMAL.fullmatch(text):
            return float(text)
        return text

    def _text(self, node: yaml.ScalarNode, line: int) -> str:
        text: str = node.value
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise _error(self._file, line, "there is half a character, a surrogate", "write the complete character")
        return text
