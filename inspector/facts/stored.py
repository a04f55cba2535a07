"""Texts that stay in the log until a view needs them, so that a large log needs little memory."""

import os

from msgspec import Struct

from ctrace.inspector.errors import RunError

# The first byte of a payload: torch indents each of its lines with a tab (torch/_logging/_internal.py).
_TAB = 9


class Stored(Struct, frozen=True):
    """A payload in a log that is not compressed, or the first line of a record."""

    path: str
    offset: int
    length: int
    """In bytes, with the tabs that indent it."""

    def read(self) -> str:
        """Read the payload.

        Raises:
            RunError: the log changed since it was read.
        """
        raw = self.raw()
        # If the log was written again, any part of another record may stand here.
        if raw[0] != _TAB:
            raise self._changed()
        end = len(raw) - raw.endswith(b"\n")
        # A byte that is no UTF-8 costs one character, and not the view.
        return raw[1:end].replace(b"\n\t", b"\n").decode("utf-8", "replace")

    def raw(self) -> bytes:
        """Read the bytes.

        Raises:
            RunError: the log changed since it was read.
        """
        try:
            # Opened each time: a session goes into a cache and to other processes, and an open file cannot.
            with open(self.path, "rb", buffering=0) as log:  # noqa: PTH123 - called for each of thousands of texts
                raw = os.pread(log.fileno(), self.length, self.offset)
        except OSError as error:
            raise RunError(f"{self.path} cannot be read: {error.strerror or error}", "run the command again") from None
        # Also if nothing was to be read, which is no payload: `read` looks at the first byte.
        if not raw or len(raw) != self.length:
            raise self._changed()
        return raw

    def _changed(self) -> RunError:
        return RunError(f"{self.path} changed while it was read", "run the command again")


Text = str | Stored
"""A text, or where to read it."""


def text_of(text: Text) -> str:
    """Return a text, from the log if it was left there.

    Raises:
        RunError: the log changed since it was read.
    """
    if isinstance(text, str):
        return text
    return text.read()


class HasText:
    """A Struct with a text that may still be in the log: its field `body`."""

    __slots__ = ()
    body: Text

    @property
    def text(self) -> str:
        """Return the text as torch printed it.

        Raises:
            RunError: it is in a log that changed since it was read.
        """
        return text_of(self.body)
