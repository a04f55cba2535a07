"""Look up GPUs in the table: GPUs that ctrace ships, and GPUs that users add."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from ctrace.inspector.errors import TargetError
from ctrace.inspector.knowledge.gpus.facts import build_gpu, check_facts, override_facts
from ctrace.inspector.knowledge.gpus.gpu import TargetGpu
from ctrace.inspector.knowledge.gpus.yaml_file import canonical, entries_of, near, shown

_OURS = Path(__file__).parent / "gpus.yaml"
_A_FILE = re.compile(r"(?P<file>.+\.ya?ml)(?::(?P<name>[^/]*))?", re.IGNORECASE)
_HERE = Path()
_VENDOR = ("nvidia", "geforce", "tesla")


class Listed(Struct, frozen=True):
    """A GPU in the table."""

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
    todo = f"did you mean {nearest}?" if nearest else f"there are: {', '.join(table)}; ctrace targets lists them"
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
    return there[canonical(name)] if name else next(iter(there.values()))


@cache
def _ours() -> dict[str, TargetGpu]:
    return _built(_OURS, {}, ours=True)


def _built(file: Path, below: Mapping[str, TargetGpu], *, ours: bool = False) -> dict[str, TargetGpu]:
    """Build the GPUs of a file, whose entries may extend each other and the entries in `below`."""
    entries = entries_of(file, ours=ours)
    source = "" if ours else f"your {file.name}"
    facts = {name: check_facts(entry, _where(file, name), source) for name, entry in entries.items()}
    return {name: build_gpu(name, _extended(name, facts, below, file, ()), _where(file, name)) for name in facts}


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
    return spelled[near_ones[0]] if near_ones else None
