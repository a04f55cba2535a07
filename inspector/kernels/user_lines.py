"""Which of the user's lines each line of a kernel's source comes from.

Capture knows lines by their text, and by the kernel object that wrote them. In a C++ kernel several objects write into
one source, each into blocks of its own, and the same text may be in several of them: then those objects count that
have written all of the block.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from ctrace.inspector.log.events.kernels import Lines
from ctrace.inspector.model.kernels import Statement
from ctrace.inspector.source.stacks import user_lines

_Line = tuple[int, int]
"""Number in the source, from 1, and checksum."""


def statements_of(source: str, written: Iterable[Lines], prefixes: Mapping[str, str]) -> tuple[Statement, ...]:
    """Give the lines of a source whose origin is known and is the user's or a library's."""
    objects = tuple(lines for lines in written if lines)
    found = []
    for block in _blocks(source, objects):
        owners = [lines for lines in objects if all(text in lines for _, text in block)] or objects
        for number, text in block:
            stacks = [stack for lines in owners for stack in lines.get(text, ())]
            if places := user_lines(stacks, prefixes):
                found.append(Statement(number, places))
    return tuple(found)


def _blocks(source: str, objects: tuple[Lines, ...]) -> Iterator[list[_Line]]:
    """Give known lines that follow each other without an unknown one in between."""
    known = {text for lines in objects for text in lines}
    numbered = [
        (number, zlib.crc32(line.strip().encode("utf-8", "replace")))
        for number, line in enumerate(source.split("\n"), 1)
    ]
    for is_known, block in groupby(numbered, key=lambda line: line[1] in known):
        if is_known:
            yield list(block)
