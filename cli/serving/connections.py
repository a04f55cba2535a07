"""Connections of `ctrace serve`: bounded in number, and in the time they take without asking or reading anything."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

HEADER_SECONDS = 10.0
"""How long the headers of a request may take."""
READ_SECONDS = 60.0
"""How long an answer may wait for a client that reads nothing of it."""
LOOK_SECONDS = 2.0
MOST = 200
"""How many connections may be open: below the usual limit on open files. Of more, the one that waits longest goes."""


class Connection(H11Protocol):
    """A connection that ends if its client sends no whole request, or does not read the answer."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._waits_since: float | None = None
        """Since when it has waited for the headers of a request; None: it has them."""
        self._unread, self._unread_since = 0, 0.0
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Take a connection; if there are too many, end the one that has waited longest for a request."""
        super().connection_made(transport)
        self._waits_since = self.loop.time()
        self._look = self.loop.call_later(LOOK_SECONDS, self._check)
        if len(self.connections) > MOST:
            waiting = [each for each in self.connections if isinstance(each, Connection) and each.is_waiting]
            min(waiting, key=lambda each: each.waits_since).end()  # this one waits, at least

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the headers of a request."""
        return self._waits_since is not None

    @property
    def waits_since(self) -> float:
        """Since when it has waited, on the clock of the loop."""
        return self._waits_since or 0.0

    def end(self) -> None:
        """End the connection at once, also if the client reads nothing."""
        self._waits_since = None
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        before: RequestResponseCycle | None = self.cycle  # None until the first request
        if not self.is_waiting and (before is None or before.response_complete):
            self._waits_since = self.loop.time()
        super().data_received(data)
        if self.cycle is not before:
            self._waits_since = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def _check(self) -> None:
        """End the connection if its client takes too long."""
        now, unread = self.loop.time(), self.transport.get_write_buffer_size()
        if unread != self._unread or not unread:
            self._unread, self._unread_since = unread, now
        is_late = self._waits_since is not None and now - self._waits_since > HEADER_SECONDS
        if is_late or now - self._unread_since > READ_SECONDS:
            self.end()
        else:
            self._look = self.loop.call_later(LOOK_SECONDS, self._check)
