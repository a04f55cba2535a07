"""The configurations of an ejected kernel: those that Triton compiled in the run, else a few that suit its sizes."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from ctrace.inspector.facts.built import Built

_MOST = 4096
"""The most elements of a block in a guessed configuration."""


class Config(Struct, frozen=True):
    """One configuration of a kernel."""

    blocks: Mapping[str, int]
    warps: int
    stages: int


def configs_of(
    built: Iterable[Built], blocks: tuple[str, ...], hints: Mapping[object, object], fixed: Mapping[str, int]
) -> tuple[Config, ...]:
    """Return the configurations of a kernel with these block sizes; `hints` has the sizes at compile time."""
    found = {
        (tuple(sorted(each.blocks.items())), each.warps, each.stages): each
        for each in built
        if set(blocks) <= set(each.blocks)
    }
    if found:
        return tuple(
            Config({name: each.blocks[name] for name in blocks}, each.warps, max(each.stages, 1))
            for each in found.values()
        )
    sizes = {str(key).rstrip("_").upper(): value for key, value in hints.items() if isinstance(value, int)}
    return tuple(_guessed(blocks, sizes, fixed))


def _guessed(blocks: tuple[str, ...], sizes: Mapping[str, int], fixed: Mapping[str, int]) -> Iterable[Config]:
    if not blocks:
        return [_config({}, 4)]
    if any(each.startswith("R") for each in (*blocks, *fixed)):
        return _reductions(blocks, sizes, fixed)
    if blocks == ("XBLOCK",):
        return [_config({"XBLOCK": size}, 8 if size == 1024 else 4) for size in (256, 512, 1024)]
    shapes = ((32, 32), (64, 64), (16, 256), (256, 16))
    return [_config({name: (*shape, 1)[at] for at, name in enumerate(blocks)}, 4) for shape in shapes]


def _reductions(blocks: tuple[str, ...], sizes: Mapping[str, int], fixed: Mapping[str, int]) -> list[Config]:
    found = []
    across = fixed.get("R0_BLOCK", 0)
    for rows in (1, 8, 32):
        for along in (across,) if across else (512, 1024, 2048):
            along = min(along, _power(sizes.get("R0", along)))
            if rows == 1 or rows * along <= _MOST:
                chosen = {"XBLOCK": rows, "R0_BLOCK": along}
                found.append(_config({name: chosen.get(name, 1) for name in blocks}, 8 if along > 1024 else 4))
    return list({str(each): each for each in found}.values())


def _config(blocks: dict[str, int], warps: int) -> Config:
    return Config(blocks, warps, 1)


def _power(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()
