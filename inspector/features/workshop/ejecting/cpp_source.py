"""A C++ kernel of the CPU, as an op calls it."""

import re

from msgspec import Struct

from ctrace.inspector.facts.kernels import Pointer
from ctrace.inspector.features.workshop.ejecting.eject_refusals import SEE_DUMP, RefusalError

_WIDTHS = {"16": "AVX512", "8": "AVX2"}
"""Floats in a vector register, and torch's name of the instructions."""
_LOOP = re.compile(r"Vectorized<float>::loadu\([^;]*?, static_cast<int64_t>\((\d+)\)\)")
_STEP = re.compile(r"\+=static_cast<int64_t>\((\d+)L\)")
_SHORT = re.compile(r"\b(?:bfloat16|BFloat16|half|Half)\b")
"""Types of which a vector holds more elements than of float."""
_ALIAS = re.compile(r"auto (\w+) = (\w+);")


class CppKernel(Struct, frozen=True):
    """A C++ kernel, and what its call passes."""

    source: str
    capability: str
    """The vector instructions that it is written for, in torch's terms; empty: any."""
    arguments: tuple[str, ...]
    """Names of tensors and expressions of sizes, in order."""
    copies: tuple[tuple[str, str], ...]
    """Outputs that start as a copy of an input, and the inputs: the kernel changes these in place."""


def is_loaded_first(pointer: Pointer, source: str) -> bool:
    """Whether a C++ kernel reads what is behind a pointer before it writes there."""
    body = source.partition("{")[2]
    names = {pointer.name, *(new for new, old in _ALIAS.findall(body) if old == pointer.name)}
    body = _ALIAS.sub("", body)
    name = "|".join(map(re.escape, sorted(names)))
    used = re.search(rf"\b(?:{name})\b", body)
    stored = re.search(rf"\b(?:{name})\[[^=;]*\] = |\.store\((?:{name})\b", body)
    return used is not None and (stored is None or used.start() < stored.start())


def is_loaded(pointer: Pointer, source: str) -> bool:
    """Whether a C++ kernel reads what is behind a pointer at all."""
    name = re.escape(pointer.name)
    return re.search(rf"\bloadu\({name}\b|= {name}\[", source.partition("{")[2]) is not None


def is_used(pointer: str, source: str) -> bool:
    """Whether a C++ kernel uses a parameter."""
    return re.search(rf"\b{re.escape(pointer)}\b", source.partition("{")[2]) is not None


def vector_instructions(source: str) -> str:
    """Return the instructions that the kernel's loops are written for.

    Raises:
        RefusalError: ctrace does not know them.
    """
    if "at::vec::" not in source:
        return ""
    widths = set(_LOOP.findall(source)) & _WIDTHS.keys()
    if not widths and not _SHORT.search(source):  # all vectors are partly filled; the loops' steps are whole ones
        widths = set(_STEP.findall(source)) & _WIDTHS.keys()
    if len(widths) != 1:
        raise RefusalError("ctrace does not know the vector instructions that it is written for", SEE_DUMP)
    return _WIDTHS[widths.pop()]
