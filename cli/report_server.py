"""The server of `ctrace serve` (`serve`): a list of runs, a page for each, and a page for each two.

It only reads. A name in a URL is looked up in the list of runs and is never joined to a path. Pages of runs are opened
without an origin (`sandbox`), so that nothing in a run could reach the server.
Its connections are bounded in number, and in the time they take without asking or reading anything.
"""

import asyncio
import hmac
import json
import socket
from asyncio.subprocess import DEVNULL, PIPE
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from ctrace.cli.serving_page import REFUSED, command_of
from ctrace.inspector.errors import RunError
from ctrace.inspector.files.disk_errors import reason
from ctrace.inspector.runs.store import SavedRun, Store

LOOPBACK = ("127.0.0.1", "localhost", "::1")
COOKIE = "ctrace-token"
_MOST_PAGES = 8
"""How many pages stay in memory."""
_MOST_AT_ONCE = 2
"""How many pages are written at once, since a large run takes memory."""
# Chosen: far above what the page of a large run takes; the page says what to do instead.
_MOST_SECONDS = 300
_Key = tuple[tuple[str, str, float, int], ...]
_LIST_POLICY = "frame-ancestors 'none'"
_RUN_POLICY = f"{_LIST_POLICY}; sandbox allow-scripts"
"""The rest of the policy is in the pages, with the hashes of what they may run."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
HEADER_SECONDS = 10.0
"""How long the headers of a request may take."""
READ_SECONDS = 60.0
"""How long an answer may wait for a client that reads nothing of it."""
# Chosen: how late a client that is gone is noticed; nothing else waits for it.
LOOK_SECONDS = 2.0
MOST = 200
"""How many connections may be open: below the usual limit on open files. Of more, the one that waits longest goes."""


class PageError(Exception):
    """A page cannot be written; the message says why, and what to do."""


class Pages:
    """Pages of runs, written when they are requested and again when their run changes.

    Each is written by a process of its own, a few at a time, so that the server answers meanwhile.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: OrderedDict[_Key, str] = OrderedDict()
        self._writing: dict[_Key, asyncio.Task[str]] = {}
        self._free = asyncio.Semaphore(_MOST_AT_ONCE)

    async def page(self, *names: str) -> str | None:
        """Return the page of a run, or of what changed between two; None: one of them does not exist.

        Raises:
            PageError: it cannot be written.
        """
        # It reads the disk, and other requests need not wait for that.
        key = await run_in_threadpool(self._key, names)
        if key is None:
            return None
        if key not in self._known:
            # Requests for one page wait for one process.
            if key not in self._writing:
                self._writing[key] = asyncio.create_task(self._written(key, names))
                self._writing[key].add_done_callback(lambda task: self._done(key, task))
            # A request that is given up ends its own wait, not the page for the others.
            return await asyncio.shield(self._writing[key])
        self._known.move_to_end(key)
        return self._known[key]

    def _key(self, names: tuple[str, ...]) -> _Key | None:
        known = {run.name: run for run in self.store.runs()}
        if all(name in known for name in names):
            return tuple(_version(known[name]) for name in names)
        return None

    def _done(self, key: _Key, task: "asyncio.Task[str]") -> None:
        del self._writing[key]
        if task.cancelled() or task.exception() is not None:
            return
        self._known[key] = task.result()
        while len(self._known) > _MOST_PAGES:
            self._known.popitem(last=False)

    async def _written(self, key: _Key, names: tuple[str, ...]) -> str:
        """Write a page in a process.

        Raises:
            PageError: it cannot be written, or takes too long.
        """
        async with self._free:
            child = await asyncio.create_subprocess_exec(
                *command_of(self.store.root, names), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
            )
            try:
                out, _ = await asyncio.wait_for(child.communicate(), _MOST_SECONDS)
            except TimeoutError:
                raise PageError(f"The page takes longer than {_MOST_SECONDS} s.\n  {_elsewhere(names)}\n") from None
            finally:
                if child.returncode is None:
                    child.kill()
                    await child.wait()
        if child.returncode == REFUSED:
            what, todo = json.loads(out)
            raise PageError(f"{what}\n  {todo}\n")
        if child.returncode != 0:
            raise PageError(f"The page cannot be written.\n  see why: {_elsewhere(names)}\n")
        return out.decode()


def _elsewhere(names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return f"ctrace report {names[0]}"
    return f"ctrace report --diff {' '.join(names)}"


def _version(run: SavedRun) -> tuple[str, str, float, int]:
    """Identify a run and the state of its log."""
    try:
        found = run.log.stat()
    except OSError:
        return run.name, run.status, 0.0, 0
    return run.name, run.status, found.st_mtime, found.st_size


def application(store: Store, token: str | None, host: str) -> Starlette:
    """Return the server's application; with a token, all requests need it."""
    pages = Pages(store)

    def runs_page(_request: Request) -> Response:
        from ctrace.reports.html.html_page import render_run_list_html

        return HTMLResponse(render_run_list_html(str(store.root)), headers={"Content-Security-Policy": _LIST_POLICY})

    def runs_data(_request: Request) -> Response:
        from ctrace.reports.html.html_page import render_run_list_json

        text = render_run_list_json(store.runs(), store.damaged())
        return Response(text, media_type="application/json")

    async def run_page(request: Request) -> Response:
        return await _answer(pages.page(request.path_params["name"]))

    async def diff_page(request: Request) -> Response:
        return await _answer(pages.page(request.path_params["before"], request.path_params["after"]))

    routes = [
        Route("/", runs_page),
        Route("/runs.json", runs_data),
        Route("/run/{name:str}", run_page),
        Route("/diff/{before:str}/{after:str}", diff_page),
    ]
    # A page of another site could name this server by a host of its own (DNS rebinding): only our names are answered.
    hosts = [*LOOPBACK, "[::1]"] if host in LOOPBACK else ["*"]
    # The first one is the outermost, so that refusals by the other two have the headers as well.
    middleware = [
        Middleware(BaseHTTPMiddleware, dispatch=_with_headers),
        Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
        Middleware(BaseHTTPMiddleware, dispatch=_with_token(token)),
    ]
    return Starlette(routes=routes, middleware=middleware)


async def _answer(writing: Awaitable[str | None]) -> Response:
    """Write a page; what cannot be read becomes a page that says so."""
    try:
        page = await writing
    except PageError as error:
        return PlainTextResponse(str(error), 422)
    if page is None:
        return PlainTextResponse("There is no such run. The list of runs is at /\n", 404)
    return HTMLResponse(page, headers={"Content-Security-Policy": _RUN_POLICY})


_Next = Callable[[Request], Awaitable[Response]]


async def _with_headers(request: Request, call_next: _Next) -> Response:
    response = await call_next(request)
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    # A page has a policy already, which allows its script.
    response.headers.setdefault("Content-Security-Policy", f"default-src 'none'; {_LIST_POLICY}")
    return response


def _with_token(token: str | None) -> Callable[[Request, _Next], Awaitable[Response]]:
    """Return the check of the token: in the URL once, then in a cookie that scripts cannot read."""

    async def dispatch(request: Request, call_next: _Next) -> Response:
        if token is None:
            return await call_next(request)
        if _is_equal(request.query_params.get("token"), token):
            # The same address without the token, which would stay in the browser's history.
            response = RedirectResponse(request.url.path, 303)
            response.set_cookie(COOKIE, token, httponly=True, samesite="strict", path="/")
            return response
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if _is_equal(request.cookies.get(COOKIE), token) or _is_equal(bearer, token):
            return await call_next(request)
        return JSONResponse({"error": "open the address that ctrace serve printed, with its token"}, 401)

    return dispatch


def _is_equal(given: str | None, token: str) -> bool:
    # In a time that does not tell how much of it is right; as bytes, since of texts it takes ASCII only.
    return given is not None and hmac.compare_digest(given.encode(), token.encode())


def listening(host: str, port: int) -> socket.socket:
    """Open the socket, so that a port that is taken is an error before anything starts.

    Raises:
        RunError: nothing can listen there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        what = f"cannot listen on {host}, port {port}: {reason(error)}"
        raise RunError(what, "choose another with --port; 0 takes a free one") from None


def serve(folder: Path, host: str, sock: socket.socket, token: str | None) -> None:
    """Answer requests until Ctrl-C."""
    server_of(folder, host, token).run(sockets=[sock])


def server_of(folder: Path, host: str, token: str | None) -> uvicorn.Server:
    """Return the server of a folder of runs."""
    config = uvicorn.Config(
        application(Store(folder), token, host),
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        http=Connection,
    )
    return uvicorn.Server(config)


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
        # `close` would wait until the client has read the rest.
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
        # A client that reads a part of the answer is alive.
        if unread != self._unread or not unread:
            self._unread, self._unread_since = unread, now
        is_late = self._waits_since is not None and now - self._waits_since > HEADER_SECONDS
        if is_late or now - self._unread_since > READ_SECONDS:
            self.end()
        else:
            self._look = self.loop.call_later(LOOK_SECONDS, self._check)
