"""Write which arguments of torch's ops take Python numbers and no tensor, by the schemas of the installed torch.

An op has a schema for each overload: `aten::lerp` takes its weight as a number or as a tensor, `aten::dropout` takes
its probability as a number only. Functions of `torch.nn.functional` that are written in Python say it in annotations.
"""

import inspect

from ctrace.inspector.knowledge.torch_ops import NUMBERS_FILE

HEAD = """\
# Arguments that take Python numbers and no tensor, with their positions, by the op's name; -1: only by keyword.
# Written by tools/number_arguments.py from the schemas of torch {version}.
"""
_NUMBERS = frozenset(("float", "int", "number", "SymInt", "List[int]", "List[float]", "List[SymInt]"))
_ENUMS = frozenset(("dtype", "layout", "memory_format"))
"""Arguments that a schema has as integers, and Python as objects."""


def found() -> dict[str, dict[str, int]]:
    """Return the arguments of each public op, by name."""
    import torch
    from torch.nn import functional

    homes = (torch, torch.Tensor, functional)
    named: dict[str, dict[str, int]] = {}
    for name, schemas in _schemas().items():
        if not name.startswith("_") and any(hasattr(home, name) for home in homes) and (mine := _of(schemas)):
            named[name] = mine
    for name, function in inspect.getmembers(functional, inspect.isfunction):
        if not name.startswith("_") and (mine := _annotated(function)):
            named[name] = named.get(name, {}) | mine
    return named


def _schemas() -> dict[str, list[object]]:
    import torch

    grouped: dict[str, list[object]] = {}
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        takes_tensor = bool(schema.arguments) and str(schema.arguments[0].type) == "Tensor"
        if space == "aten" and takes_tensor and not schema.overload_name.endswith("out"):
            grouped.setdefault(name, []).append(schema)
    return grouped


def _of(schemas: list[object]) -> dict[str, int]:
    """Return the arguments that take a number in each overload that has them, with their position."""
    kinds: dict[str, set[str]] = {}
    places: dict[str, int] = {}
    for schema in schemas:
        for place, argument in enumerate(schema.arguments):  # type: ignore[attr-defined]
            if argument.name in _ENUMS:
                continue
            kinds.setdefault(argument.name, set()).add(_plain(str(argument.type)))
            places.setdefault(argument.name, -1 if argument.kwarg_only else place)
    taken = {place for name, place in places.items() if not kinds[name] <= _NUMBERS}
    return {
        name: place for name, place in places.items() if kinds[name] <= _NUMBERS and (place < 0 or place not in taken)
    }


def _annotated(function: object) -> dict[str, int]:
    """Return the arguments that a Python function annotates as numbers."""
    numbers: dict[str, int] = {}
    for place, each in enumerate(inspect.signature(function).parameters.values()):  # type: ignore[arg-type]
        kind = _plain(getattr(each.annotation, "__name__", str(each.annotation)))
        if kind in _NUMBERS and not each.name.startswith("_"):
            numbers[each.name] = -1 if each.kind is inspect.Parameter.KEYWORD_ONLY else place
    return numbers


def _plain(kind: str) -> str:
    return kind.removeprefix("Optional[").removesuffix("]") if kind.startswith("Optional[") else kind


def written(named: dict[str, dict[str, int]], version: str) -> str:
    """Write the arguments as a file."""
    lines = (f"{name}: {{{', '.join(f'{each}: {at}' for each, at in mine.items())}}}" for name, mine in named.items())
    return HEAD.format(version=version) + "".join(f"{line}\n" for line in sorted(lines))


if __name__ == "__main__":
    import torch

    NUMBERS_FILE.write_text(written(found(), torch.__version__.partition("+")[0]), encoding="utf-8")
