"""Tables of virtual functions, as the Itanium C++ ABI lays them out: copied, and with some functions replaced."""

import ctypes
import sys
from collections.abc import Sequence
from typing import Any, Self

_WORD = ctypes.sizeof(ctypes.c_void_p)
_BEFORE = 2
"""Words of a table before its first function: an offset, and what type it is of."""


class UnknownTorchError(Exception):
    """Torch's C++ side is not as expected; says what is missing."""


class Table:
    """A table of functions in our memory, and an object that has it."""

    def __init__(self, words: Sequence[int | None], slots: Sequence[str]) -> None:
        self._words = (ctypes.c_void_p * len(words))(*words)
        self._slots = slots
        self._used: list[Any] = []
        self._object = ctypes.c_void_p(self.functions)

    @classmethod
    def copied(cls, table: ctypes.c_void_p, slots: Sequence[str]) -> Self:
        """Copy the table that an object's first word leads to."""
        start = (table.value or 0) - _BEFORE * _WORD
        return cls((ctypes.c_void_p * cls.words(slots)).from_address(start)[:], slots)

    @classmethod
    def of_one(cls, function: Any, slots: Sequence[str]) -> Self:
        """Make a table whose every function is the same."""
        table = cls([None] * cls.words(slots), slots)
        for name in slots:
            table.replace(name, function)
        return table

    @staticmethod
    def words(slots: Sequence[str]) -> int:
        """Count the words of a table of these functions."""
        return _BEFORE + len(slots)

    @property
    def functions(self) -> int:
        """The address of the first function, as objects hold it."""
        return ctypes.addressof(self._words) + _BEFORE * _WORD

    @property
    def object(self) -> int:
        """The address of an object that has this table, and nothing else."""
        return ctypes.addressof(self._object)

    def replace(self, name: str, function: Any) -> None:
        """Replace every function of this name by a C function or an address, which lives as long as the table.

        Raises:
            UnknownTorchError: there is none of this name.
        """
        self._used.append(function)
        address = function if isinstance(function, int) else ctypes.cast(function, ctypes.c_void_p).value
        self._words[self._place(name)] = address

    def _place(self, name: str) -> int:
        if name not in self._slots:
            msg = f"torch has no virtual function {name}"
            raise UnknownTorchError(msg)
        return _BEFORE + self._slots.index(name)


def word_at(address: int) -> ctypes.c_void_p:
    """Give the word at an address, to be read and set."""
    return ctypes.c_void_p.from_address(address)


class _Symbol(ctypes.Structure):
    """`Dl_info` of dladdr(3): the symbol that an address lies in."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def symbol_covers(start: int, words: int) -> None:
    """Check that the symbol at `start` has as many words as the headers say.

    Raises:
        UnknownTorchError: it has not.
    """
    last, beyond = (_symbol_at(start + word * _WORD) == start for word in (words - 1, words))
    # Only Linux looks at a symbol's size here; elsewhere what follows may seem to belong to it.
    if not last or (beyond and sys.platform == "linux"):
        msg = "torch's headers do not describe its library"
        raise UnknownTorchError(msg)


def _symbol_at(address: int) -> int | None:
    symbol = _Symbol()
    found = ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(symbol))
    return symbol.address if found else None
