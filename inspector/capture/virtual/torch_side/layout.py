"""Where torch's virtual functions lie: in the order in which torch's own headers declare them.

By the Itanium C++ ABI (that of Linux and macOS) the functions of an object lie in a table in the order of their
declaration, those of the base class first, and a function that overrides one keeps the place of that. The headers are
part of every torch wheel, of the same build.
"""

import re
from pathlib import Path

HOOKS = ("ATen/detail/AcceleratorHooksInterface.h", "ATen/detail/CUDAHooksInterface.h")
"""Of `at::CUDAHooksInterface`, which torch's C++ code asks about CUDA: the base class, and itself (2.11 to 2.13)."""
GUARD = ("c10/core/impl/DeviceGuardImplInterface.h",)
"""Of `c10::impl::DeviceGuardImplInterface`, which it asks about devices and streams."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ONLY_ROCM = re.compile(r"^#ifdef USE_ROCM\b.*?^#endif", re.DOTALL | re.MULTILINE)
_VIRTUAL = re.compile(r"\bvirtual\s[^({;]*?(~|\b)(\w+)\s*\(")


def slots_of(include: Path, headers: tuple[str, ...]) -> list[str]:
    """Give the functions' names in the order of the table, from headers below `include`; a destructor (`~`) has two.

    Raises:
        OSError: a header is missing.
        UnicodeDecodeError: it is no text.
    """
    slots: list[str] = []
    for header in headers:
        text = _ONLY_ROCM.sub("", _COMMENT.sub(" ", (include / header).read_text(encoding="utf-8")))
        for tilde, name in _VIRTUAL.findall(text):
            function = tilde or name
            if function not in slots:
                slots += [function] * (2 if tilde else 1)
    return slots
