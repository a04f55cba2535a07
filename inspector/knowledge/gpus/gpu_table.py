"""The facts about target GPUs, and their table: the GPUs that ctrace ships, and those that users add.

msgspec checks the facts of an entry, one by one, against the types of `TargetGpu`, before a GPU is made of them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

from msgspec import Meta, Struct, convert, field

from ctrace.inspector.errors import TargetError, near, shown
from ctrace.inspector.files.typed_json import required_names

FORMATS = ("float64", "tf32", "float16", "bfloat16", "float8", "int8")
"""Formats that Tensor Cores support; `tf32` is float32 with fewer bits."""
VECTOR_FORMATS = ("float64", "float32")
_SHIPPED = Path(__file__).parent
_A_FILE = re.compile(r"(?P<file>.+\.ya?ml)(?::(?P<name>[^/]*))?", re.IGNORECASE)
_HERE = Path()
_VENDOR = ("nvidia", "geforce", "tesla")
NAMES = "use a name for --target: letters, digits, '-', '_', '+' and '.'"
_WRITE = "ctrace targets h100 --json shows an example"
Entries = dict[str, dict[str, Any]]
"""The unchecked entries of a file, by name."""
_ShortText = Annotated[str, Meta(pattern=r"\S", max_length=200)]
_Threads = Annotated[int, Meta(ge=32, le=1 << 16)]
_SharedBytes = Annotated[int, Meta(ge=1024, le=1 << 30, description=" (bytes)")]
_Clock = Annotated[float, Meta(ge=1e6, le=1e12)]
_Bandwidth = Annotated[float, Meta(ge=1e6, le=1e18)]
_Rate = Annotated[float, Meta(ge=1e6, le=1e21)]


class TargetGpu(Struct, frozen=True):
    """A GPU as torch and Triton describe it, with peak rates from its data sheet.

    Memory sizes are in bytes, rates in operations or bytes per second.
    """

    name: str
    """The name for `--target`: `h100`."""
    title: _ShortText
    """The driver's name for it."""
    capability: tuple[int, int]
    processors: Annotated[int, Meta(ge=1, le=100_000)]
    registers: Annotated[int, Meta(ge=1024, le=1 << 24)]
    """Per multiprocessor."""
    threads: _Threads
    """Per multiprocessor."""
    shared: _SharedBytes
    """Per multiprocessor."""
    shared_per_block: _SharedBytes
    """Shared memory that a block can use by default."""
    shared_per_block_optin: _SharedBytes
    """Shared memory that a block can use if it requests it."""
    memory: Annotated[int, Meta(ge=1 << 20, le=1 << 50, description=" (bytes)")]
    l2: Annotated[int, Meta(ge=0, le=1 << 40, description=" (bytes)")]
    threads_per_block: _Threads = 1024
    warp: Annotated[int, Meta(ge=1, le=1024)] = 32
    clock: _Clock | None = None
    """Maximum cycles per second; None if not known."""
    bandwidth: _Bandwidth | None = None
    """Memory bandwidth; None if not known."""
    rates: Mapping[str, _Rate] = field(default_factory=dict)
    """Peak operations per second of the Tensor Cores, by format (`FORMATS`): dense, summed in float32 or int32, as in
    the data sheet; a missing format is not known."""
    vector_rates: Mapping[str, _Rate] = field(default_factory=dict)
    """Peak operations per second of the vector units, by format (`VECTOR_FORMATS`)."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The source of each fact, keyed by field."""


class Listed(Struct, frozen=True):
    """A GPU in the table."""

    JSON: ClassVar[str] = "*gpu capability=gpu.capability|dotted file replaces"
    gpu: TargetGpu
    file: str | None = None
    """The user's file that defines it; None if ctrace ships it."""
    replaces: bool = False
    """Whether it replaces an entry of the same name."""


def gpu_named(name: str, files: Sequence[str] = (), folder: Path = _HERE) -> TargetGpu:
    """Find the GPU for `--target`: by name, by title, or as `gpus.yaml:name`, relative to `folder`.

    `files` come from the project's settings.

    Raises:
        TargetError: no GPU has that name, or a file of GPUs is wrong.
    """
    return listed(name, files, folder).gpu


def listed(name: str, files: Sequence[str] = (), folder: Path = _HERE) -> Listed:
    """Find a GPU as `gpu_named` does, with the file that defines it.

    Raises:
        TargetError: no GPU has that name, or a file of GPUs is wrong.
    """
    in_file = _A_FILE.fullmatch(name)
    if in_file is not None:
        return Listed(_in_file(folder / in_file["file"], in_file["name"], files), in_file["file"])
    return found(name, gpus(files))


def found(name: str, table: Mapping[str, Listed]) -> Listed:
    """Find a GPU in the table by name or by title.

    Raises:
        TargetError: the table has no such GPU.
    """
    if canonical(name) in table:
        return table[canonical(name)]
    same = [each for each in table.values() if _bare(name) in (_bare(each.gpu.name), _bare(each.gpu.title))]
    if same and _bare(name):
        return same[-1]
    nearest = _nearest_name(name, table)
    if nearest:
        todo = f"did you mean {nearest}?"
    else:
        todo = f"there are: {', '.join(table)}; ctrace targets lists them"
    raise TargetError(f"--target {shown(name)}: there is no such GPU" if name else "--target names no GPU", todo)


def gpus(files: Sequence[str] = ()) -> dict[str, Listed]:
    """Return all GPUs, keyed by name; users' files override ctrace's table, and later files override earlier ones.

    Raises:
        TargetError: a file is wrong.
    """
    table = {name: Listed(gpu) for name, gpu in _ours().items()}
    for file in files:
        below = {name: each.gpu for name, each in table.items()}
        for name, gpu in _built(Path(file), below).items():
            table[name] = Listed(gpu, file, replaces=name in below)
    return table


def same_device(table: Mapping[str, Listed], title: str, processors: int | None) -> TargetGpu | None:
    """Find the GPU in the table by the driver's name and the number of multiprocessors."""
    alike = (each.gpu for each in table.values() if _bare(each.gpu.title) == _bare(title))
    return next((gpu for gpu in alike if processors in (None, gpu.processors)), None)


def _in_file(file: Path, name: str | None, files: Sequence[str]) -> TargetGpu:
    below = {each: there.gpu for each, there in gpus(files).items()}
    there = _built(file, below)
    if not name and len(there) > 1:
        todo = f"pick one: --target {file}:{next(iter(there))}"
        raise TargetError(f"{file} defines {len(there)} GPUs: {', '.join(there)}", todo)
    if name and canonical(name) not in there:
        raise TargetError(f"{file} defines no GPU {shown(name)}", near(canonical(name), there))
    if name:
        return there[canonical(name)]
    return next(iter(there.values()))


@cache
def _ours() -> dict[str, TargetGpu]:
    return _built(_SHIPPED / "gpus.yaml", {}, ours=True)


def _built(file: Path, below: Mapping[str, TargetGpu], *, ours: bool = False) -> dict[str, TargetGpu]:
    """Build the GPUs of a file, whose entries may extend each other and the entries in `below`."""
    entries = entries_of(file, ours=ours)
    source = ""
    if not ours:
        source = f"your {file.name}"
    facts = {name: check_facts(entry, _where(file, name), source) for name, entry in entries.items()}
    return {name: build_gpu(name, _extended(name, facts, below, file, ()), _where(file, name)) for name in facts}


def entries_of(file: Path, *, ours: bool = False) -> Entries:
    """Read a file that maps the name of each GPU to a table; `ours` marks a file that ctrace ships.

    Raises:
        TargetError: the file cannot be read, is not YAML, or is not a table of tables.
    """
    from ctrace.inspector.files.yaml_file import read_table  # PyYAML is slow to import, and only needed for this

    data = read_table(file, ours=ours)
    if not isinstance(data, dict) or not data:
        raise TargetError(f"{file} defines no GPU", f"write a name, and its facts below it; {_WRITE}")
    entries: Entries = {}
    for key, entry in data.items():
        name = _entry_name(key, file)
        if name in entries:
            raise TargetError(f"{file}: {name} is defined twice", "rename one of them")
        if not isinstance(entry, dict) or not all(isinstance(fact, str) for fact in entry):
            raise TargetError(f"{file}: {name} is not a table of facts", f"write its facts below the name; {_WRITE}")
        entries[name] = entry
    return entries


def _entry_name(key: object, file: Path) -> str:
    name = ""
    if isinstance(key, str | int) and not isinstance(key, bool):
        name = canonical(str(key))
    if not is_name(name):
        raise TargetError(f"{file}: {shown(key)} is not a valid GPU name", NAMES)
    return name


def canonical(name: str) -> str:
    """Return a name as the table spells it: in lower case, without spaces."""
    return "-".join(name.lower().split())


def is_name(name: str) -> bool:
    """Whether a name, spelled as in the table, is valid for a GPU."""
    return 0 < len(name) <= 60 and all(letter.isalnum() or letter in "-_.+" for letter in name)


def _where(file: Path, name: str) -> str:
    return f"{file}: {name}"


def _extended(
    name: str, facts: Mapping[str, dict[str, Any]], below: Mapping[str, TargetGpu], file: Path, seen: tuple[str, ...]
) -> dict[str, Any]:
    """Return the facts of an entry, merged with the entry that it extends."""
    own = facts[name]
    base = own.get("extends")
    if base is None:
        return own
    base = canonical(base)
    if name in seen:
        raise TargetError(f"{_where(file, name)} extends itself", "write all facts of one of them instead")
    if base in facts and base != name:
        lower = _extended(base, facts, below, file, (*seen, name))
    elif base in below:
        lower = _facts_of(below[base])
    else:
        known = [each for each in (*facts, *below) if each != name]
        raise TargetError(f"{_where(file, name)} extends {shown(base)}, which does not exist", near(base, known))
    return override_facts(lower, own)


def _facts_of(gpu: TargetGpu) -> dict[str, Any]:
    return {key: getattr(gpu, key) for key in TargetGpu.__struct_fields__ if key != "name"}


def _bare(name: str) -> str:
    """Reduce a name to the part that identifies the GPU: `rtx4090` from "NVIDIA GeForce RTX 4090"."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "".join(word for word in words if word not in _VENDOR)


def _nearest_name(name: str, table: Mapping[str, Listed]) -> str | None:
    import difflib

    spelled = {_bare(text): each.gpu.name for each in table.values() for text in (each.gpu.title, each.gpu.name)}
    near_ones = difflib.get_close_matches(_bare(name)[:100], spelled, 1)
    if near_ones:
        return spelled[near_ones[0]]
    return None


_RATES = {"rates": FORMATS, "vector_rates": VECTOR_FORMATS}
FACTS = tuple(each for each in TargetGpu.__struct_fields__ if each not in ("name", "sources"))
_KEYS = ("extends", *FACTS, "sources")
_NULLABLE = ("extends", "clock", "bandwidth", *_RATES)
_TYPES = {
    **get_type_hints(TargetGpu, include_extras=True),
    "extends": _ShortText,
    "clock": _Clock,
    "bandwidth": _Bandwidth,
}
_NUMBER = re.compile(r"\d{1,30}(\.\d{1,30})?([eE]\+?\d{1,3})?")
"""Numbers as text: PyYAML parses `1.98e9` as text."""
_CAPABILITY = re.compile(r"(\d{1,3})\.(\d{1,2})")
_SHARED = "CUDA C++ Programming Guide, by compute capability (as code: NVIDIA/cccl 004ad19, arch_traits.h)"
_BY_CAPABILITY = ("registers", "threads", "shared", "shared_per_block", "shared_per_block_optin")
_OF_ALL = {"threads_per_block": 1024, "warp": 32}


def check_facts(entry: Mapping[str, Any], where: str, source: str = "") -> dict[str, Any]:
    """Return the typed facts of an entry and their `sources`; `source` is the default.

    Raises:
        TargetError: a fact is unknown or has an invalid value.
    """
    _refuse_unknown(entry, _KEYS, where)
    facts = {key: _checked(key, value, where) for key, value in entry.items()}
    defaults = {key: source for key in facts if key in FACTS and source}
    return {**facts, "sources": {**defaults, **_sources(entry.get("sources"), where)}}


def override_facts(lower: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Override the facts of an extended entry with an entry's own facts.

    Rates are merged by format, unless the entry's rates are null. A different compute capability drops the facts that
    depend on it.
    """
    if own.get("capability", lower.get("capability")) != lower.get("capability"):
        lower = {key: value for key, value in lower.items() if key not in _BY_CAPABILITY}
    merged = {**lower, **own}
    merged["sources"] = {**(lower.get("sources") or {}), **own["sources"]}
    for key in (each for each in _RATES if each not in own or own[each] is not None):
        merged[key] = {**(lower.get(key) or {}), **own.get(key, {})}
        if own.get(key) and set(merged[key]) > set(own[key]):
            others = (lower.get("sources") or {}).get(key, "not stated")
            merged["sources"][key] = f"{', '.join(own[key])}: {merged['sources'][key]}; others: {others}"
    return merged


def build_gpu(name: str, facts: Mapping[str, Any], where: str) -> TargetGpu:
    """Build a GPU from checked facts, with defaults for its compute capability.

    Raises:
        TargetError: a fact is missing, or two contradict each other.
    """
    full = {**facts, "sources": dict(facts["sources"])}
    full |= {key: {} for key in _RATES if full.get(key) is None}
    for key, value in _by_capability(full.get("capability")).items():
        if key not in full:
            full[key] = value
            full["sources"][key] = _SHARED
    missing = [key for key in required_names(TargetGpu) if key not in full and key != "name"]
    if missing:
        raise TargetError(
            f"{where} lacks {', '.join(missing)}", "add what is missing, or add extends with a GPU's name"
        )
    full.pop("extends", None)
    gpu = TargetGpu(name=name, **full)
    _refuse_contradictions(gpu, where)
    return gpu


def _refuse_contradictions(gpu: TargetGpu, where: str) -> None:
    pairs = (("shared_per_block", "shared_per_block_optin"), ("shared_per_block_optin", "shared"), ("l2", "memory"))
    for less, more in pairs:
        if getattr(gpu, less) > getattr(gpu, more):
            raise TargetError(f"{where}: {less} is greater than {more}", "correct one of them; both are in bytes")


@cache
def _capabilities() -> dict[str, dict[str, int]]:
    return entries_of(_SHIPPED / "capabilities.yaml", ours=True)


def _by_capability(capability: tuple[int, int] | None) -> Mapping[str, int]:
    known = {}
    if capability is not None:
        known = _capabilities().get(f"{capability[0]}.{capability[1]}", {})
    return {**known, **_OF_ALL}


def _refuse_unknown(keys: Iterable[str], known: Sequence[str], where: str) -> None:
    for key in keys:
        if key not in known:
            raise TargetError(f"{where}: there is no fact {shown(key)}", near(key, known))


def _checked(key: str, value: object, where: str) -> object:
    if key == "sources" or (value is None and key in _NULLABLE):
        return value
    if key in _RATES:
        return _rates(key, value, where)
    if key == "capability":
        return _capability(value, where)
    found = _converted(key, value, _TYPES[key], where)
    if isinstance(found, str):
        return found.strip()
    return found


def _converted(what: str, value: object, kind: Any, where: str) -> Any:
    base, limits = get_args(kind)
    if base is float and isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    try:
        return convert(value, kind)
    except ValueError:  # also what msgspec raises for half a character, "\ud800"
        raise _out_of_limits(f"{where}: {what} is {shown(value)}", what, base, limits) from None


def _out_of_limits(what: str, key: str, base: Any, limits: Meta) -> TargetError:
    if limits.pattern is not None:
        return TargetError(f"{what}, not a short text", f'write it as {key}: "..."')
    if base is not int:
        return TargetError(what, f"write a number from {limits.ge:g} to {limits.le:g}")
    return TargetError(what, f"write a whole number from {limits.ge} to {limits.le}{limits.description or ''}")


def _rates(key: str, value: object, where: str) -> dict[str, float]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise TargetError(f"{where}: {key} is {shown(value)}, not a table", f"write it as {key}: {{float64: 1e12}}")
    _refuse_unknown(value, _RATES[key], f"{where}: {key}")
    return {name: _converted(f"{key} of {name}", rate, _Rate, where) for name, rate in value.items()}


def _capability(value: object, where: str) -> tuple[int, int]:
    if isinstance(value, list | tuple):
        text = ".".join(map(str, value[:3]))
    else:
        text = str(value)
    found = None
    if not isinstance(value, bool):
        found = _CAPABILITY.fullmatch(text)
    if found is None or not 5 <= int(found[1]) <= 99:
        what = f"{where}: capability is {shown(value)}"
        raise TargetError(what, 'write the compute capability as "9.0"')
    return int(found[1]), int(found[2])


def _sources(value: object, where: str) -> dict[str, str]:
    """Return the source of each fact; a key may list several facts, separated by commas."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for pair in value.items() for each in pair):
        todo = "write it as sources: {memory: where the value is from}"
        raise TargetError(f"{where}: sources is not a table of texts", todo)
    found = {key.strip(): text for keys, text in value.items() for key in keys.split(",")}
    _refuse_unknown(found, FACTS, f"{where}: sources")
    return found
