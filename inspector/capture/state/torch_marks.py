"""Recognize the state that torch itself keeps in the program's objects: the program did not change it.

While Dynamo compiles, it marks classes and functions, and replaces methods of torch's own classes (2.11 to 2.13):
`Module.___needs_generation_tag_patch`, `Module.__init__` and `Module.__setstate__` (_dynamo/mutation_guard.py),
`_torchdynamo_disable`, `_torchdynamo_wrapper_id` and `_dynamo_marked_constant` (_dynamo/decorators.py).
"""

import os
import re
from functools import cache, lru_cache
from types import FunctionType
from typing import Any

from ctrace.inspector.capture.core.callers import folder_of_torch

_MARK = re.compile(r"___|_?(?:torch)?dynamo_")


def is_mark(name: Any) -> bool:
    """Whether only torch stores something under a name."""
    return isinstance(name, str) and _has_mark(name)


@lru_cache(maxsize=4096)
def _has_mark(name: str) -> bool:
    return _MARK.match(name) is not None


def is_compilers(value: Any) -> bool:
    """Whether a value is a function of torch's compiler, or of another private package of torch."""
    return isinstance(value, FunctionType) and value.__code__.co_filename.startswith(_private_folder())


@cache
def _private_folder() -> str:
    return os.path.join(folder_of_torch(), "_")  # noqa: PTH118 - a prefix of names, not a path
