"""Read a YAML file of GPUs safely, and check that it is a table of tables with known keys."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.files.writing import check_regular

Entries = dict[str, dict[str, Any]]
"""The unchecked entries of a file, by name."""
_LARGEST = 1 << 18
"""Maximum size of a file, in bytes."""
WRITE = "ctrace targets h100 --json shows an example"

NAMES = "use a name for --target: letters, digits, '-', '_', '+' and '.'"


def entries_of(file: Path, *, ours: bool = False) -> Entries:
    """Read a file that maps the name of each GPU to a table; `ours` marks a file that ctrace ships.

    Raises:
        TargetError: the file cannot be read, is not YAML, or is not a table of tables.
    """
    data = _parsed(_text(file), file, ours=ours)
    if not isinstance(data, dict) or not data:
        raise TargetError(f"{file} defines no GPU", f"write a name, and its facts below it; {WRITE}")
    found: Entries = {}
    for key, entry in data.items():
        name = _name(key, file)
        if name in found:
            raise TargetError(f"{file}: {name} is defined twice", "rename one of them")
        if not isinstance(entry, dict) or not all(isinstance(field, str) for field in entry):
            raise TargetError(f"{file}: {name} is not a table of facts", f"write its facts below the name; {WRITE}")
        found[name] = entry
    return found


def canonical(name: str) -> str:
    """Return a name as the table spells it: in lower case, without spaces."""
    return "-".join(name.lower().split())


def is_name(name: str) -> bool:
    """Whether a name, spelled as in the table, is valid for a GPU."""
    return 0 < len(name) <= 60 and all(letter.isalnum() or letter in "-_.+" for letter in name)


def refuse_unknown(keys: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse unknown keys.

    Raises:
        TargetError: a key is unknown.
    """
    names = list(known)
    for key in keys:
        if key not in names:
            raise TargetError(f"{where}: there is no fact {shown(key)}", near(key, names))


def near(word: str, known: Iterable[str]) -> str:
    """Return advice on an unknown word: the nearest known word, or all of them."""
    names = list(known)
    return did_you_mean(word.lower(), names, f"there are: {', '.join(names)}")


def shown(value: object) -> str:
    """Return a value from the user's file as one short line."""
    if isinstance(value, Mapping | list | set | tuple):
        return f"a {type(value).__name__}"
    if isinstance(value, int) and abs(value) > 1 << 64:
        return "a number of that size"
    text = "".join(letter if letter.isprintable() else " " for letter in str(value))
    if len(text) <= 40:
        return text
    return f"{text[:39]}…"


def _text(file: Path) -> str:
    try:
        check_regular(file)
        if file.stat().st_size > _LARGEST:
            raise TargetError(f"{file} is too large for a table of GPUs", "name another file")
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise TargetError(f"{file} cannot be read: {error.strerror}", "name another file") from None
    except ValueError:
        raise TargetError(f"{file} cannot be read: it is not UTF-8 text", "name another file") from None


def _parsed(text: str, file: Path, *, ours: bool) -> Any:
    import yaml  # slow to import, and only needed to read a table

    # The C loader is thirty times as fast, but deeply nested files crash the process.
    if ours:
        kind: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    else:
        kind = yaml.SafeLoader
    try:
        loader = kind(text)
        root = loader.get_single_node()
        _refuse_duplicates(root)
        if root is None:
            return None
        return loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        line = ""
        if error.problem_mark is not None:
            line = f":{error.problem_mark.line + 1}"
        raise TargetError(f"{file}{line}: {shown(error.problem)}", "correct the YAML there") from None
    except (
        yaml.YAMLError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        # PyYAML raises these on invalid dates, an empty !!int, thousands of digits, and deep nesting.
        raise TargetError(f"{file} is not YAML: {shown(str(error) or type(error).__name__)}", "correct it") from None


def _refuse_duplicates(root: Any) -> None:
    """Refuse duplicate keys in a table: PyYAML silently keeps the last one."""
    import yaml

    for table in _tables(root):
        seen: set[str] = set()
        for key, _ in table.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{shown(key.value)} is defined twice", problem_mark=key.start_mark)
            seen.add(str(key.value) if isinstance(key, yaml.ScalarNode) else "")


def _tables(root: Any) -> Iterable[Any]:
    """Yield the table of GPUs and the tables in it; deeper levels are not checked."""
    import yaml

    if isinstance(root, yaml.MappingNode):
        yield root
        yield from (value for _, value in root.value if isinstance(value, yaml.MappingNode))


def _name(key: object, file: Path) -> str:
    """Check the name of an entry."""
    name = ""
    if isinstance(key, str | int) and not isinstance(key, bool):
        name = canonical(str(key))
    if not is_name(name):
        raise TargetError(f"{file}: {shown(key)} is not a valid GPU name", NAMES)
    return name
