"""Copy vtables, in the layout of the Itanium C++ ABI, and replace some of their functions."""

import ctypes
import sys
from collections.abc import Sequence
from typing import Any, Self

_WORD = ctypes.sizeof(ctypes.c_void_p)
_BEFORE = 2
"""Words of a table before its first function: an offset and the type info."""


class UnknownTorchError(Exception):
    """Torch's C++ side has an unexpected layout; the message says what is missing."""


class Table:
    """A vtable in ctrace's memory, and an object that points to it."""

    def __init__(self, words: Sequence[int | None], slots: Sequence[str]) -> None:
        self._words = (ctypes.c_void_p * len(words))(*words)
        self._slots = slots
        self._used: list[Any] = []
        self._object = ctypes.c_void_p(self.functions)

    @classmethod
    def copied(cls, table: ctypes.c_void_p, slots: Sequence[str]) -> Self:
        """Copy the vtable that `table`, an object's first word, points to."""
        start = (table.value or 0) - _BEFORE * _WORD
        return cls((ctypes.c_void_p * cls.words(slots)).from_address(start)[:], slots)

    @classmethod
    def of_one(cls, function: Any, slots: Sequence[str]) -> Self:
        """Make a table with the same function in every slot."""
        table = cls([None] * cls.words(slots), slots)
        for name in slots:
            table.replace(name, function)
        return table

    @staticmethod
    def words(slots: Sequence[str]) -> int:
        """Return the number of words in a table of these functions."""
        return _BEFORE + len(slots)

    @property
    def functions(self) -> int:
        """The address of the first function, which objects point to."""
        return ctypes.addressof(self._words) + _BEFORE * _WORD

    @property
    def object(self) -> int:
        """The address of an object that consists only of a pointer to this table."""
        return ctypes.addressof(self._object)

    def replace(self, name: str, function: Any) -> None:
        """Replace the function with this name by a C function, which the table keeps alive, or by an address.

        Raises:
            UnknownTorchError: there is no such function.
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
    """Return the word at an address, for reading and writing."""
    return ctypes.c_void_p.from_address(address)


class _Symbol(ctypes.Structure):
    """`Dl_info` of dladdr(3): the symbol that contains an address."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def symbol_covers(start: int, words: int) -> None:
    """Check that the symbol at `start` has as many words as the headers declare.

    Raises:
        UnknownTorchError: the symbol has fewer words, or, on Linux, more.
    """
    last, beyond = (_symbol_at(start + word * _WORD) == start for word in (words - 1, words))
    # Only Linux's dladdr checks a symbol's size; elsewhere, memory after a symbol may appear to belong to it.
    if not last or (beyond and sys.platform == "linux"):
        msg = "torch's headers do not describe its library"
        raise UnknownTorchError(msg)


def _symbol_at(address: int) -> int | None:
    symbol = _Symbol()
    found = ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(symbol))
    return symbol.address if found else None
