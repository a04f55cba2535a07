"""The server of `ctrace serve`: a list of runs, a page for each, and a page for each two.

It only reads. A name in a URL is looked up in the list of runs and is never joined to a path. Pages of runs are opened
without an origin (`sandbox`), so that nothing in a run could reach the server.
"""

import hmac
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Lock
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from ctrace.inspector.errors import CtraceError, RunError
from ctrace.inspector.files.disk_errors import reason
from ctrace.inspector.runs.store import Run, Store

LOOPBACK = ("127.0.0.1", "localhost", "::1")
COOKIE = "ctrace-token"
_MOST_PAGES = 8
"""How many pages stay in memory."""
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


class Pages:
    """Pages of runs, written when they are requested and again when their run changes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: OrderedDict[tuple[Any, ...], str] = OrderedDict()
        self._lock = Lock()

    def run(self, name: str) -> str | None:
        """Return the page of a run; None: there is no such run."""
        from ctrace.inspector.runs.load import load
        from ctrace.reports.html.page import render_html

        runs = self._named(name)
        return None if runs is None else self._page(runs, lambda: render_html(load(runs[0]), name))

    def diff(self, before: str, after: str) -> str | None:
        """Return the page of what changed between two runs; None: one of them does not exist."""
        from ctrace.inspector.diff.compare import compare
        from ctrace.inspector.runs.load import load
        from ctrace.reports.html.comparison import render_diff_html

        def page() -> str:
            one, other = (load(run) for run in runs or ())
            return render_diff_html((before, after), (one, other), compare(one, other))

        runs = self._named(before, after)
        return None if runs is None else self._page(runs, page)

    def _named(self, *names: str) -> list[Run] | None:
        known = {run.name: run for run in self.store.runs()}
        return [known[name] for name in names] if all(name in known for name in names) else None

    def _page(self, runs: list[Run], write: Callable[[], str]) -> str:
        """Return a known page, or write it; one at a time, since a large run takes memory."""
        key = tuple(_version(run) for run in runs)
        with self._lock:
            if key not in self._known:
                self._known[key] = write()
                while len(self._known) > _MOST_PAGES:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            return self._known[key]


def _version(run: Run) -> tuple[str, str, float, int]:
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
        from ctrace.reports.html.run_list import render_run_list_html

        return HTMLResponse(render_run_list_html(str(store.root)), headers={"Content-Security-Policy": _LIST_POLICY})

    def runs_data(_request: Request) -> Response:
        from ctrace.reports.html.run_list import render_run_list_json

        text = render_run_list_json(store.runs(), store.damaged())
        return Response(text, media_type="application/json")

    def run_page(request: Request) -> Response:
        return _answer(lambda: pages.run(request.path_params["name"]))

    def diff_page(request: Request) -> Response:
        return _answer(lambda: pages.diff(request.path_params["before"], request.path_params["after"]))

    routes = [
        Route("/", runs_page),
        Route("/runs.json", runs_data),
        Route("/run/{name:str}", run_page),
        Route("/diff/{before:str}/{after:str}", diff_page),
    ]
    # A page of another site could name this server by a host of its own (DNS rebinding): only our names are answered.
    hosts = [*LOOPBACK, "[::1]"] if host in LOOPBACK else ["*"]
    middleware = [
        Middleware(BaseHTTPMiddleware, dispatch=_with_headers),
        Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
        Middleware(BaseHTTPMiddleware, dispatch=_with_token(token)),
    ]
    return Starlette(routes=routes, middleware=middleware)


def _answer(write: Callable[[], str | None]) -> Response:
    """Write a page; what cannot be read becomes a page that says so."""
    try:
        page = write()
    except CtraceError as error:
        return PlainTextResponse(f"{error.what}\n  {error.todo}\n", 422)
    if page is None:
        return PlainTextResponse("There is no such run. The list of runs is at /\n", 404)
    return HTMLResponse(page, headers={"Content-Security-Policy": _RUN_POLICY})


_Next = Callable[[Request], Awaitable[Response]]


async def _with_headers(request: Request, call_next: _Next) -> Response:
    response = await call_next(request)
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Content-Security-Policy", f"default-src 'none'; {_LIST_POLICY}")
    return response


def _with_token(token: str | None) -> Callable[[Request, _Next], Awaitable[Response]]:
    """Return the check of the token: in the URL once, then in a cookie that scripts cannot read."""

    async def dispatch(request: Request, call_next: _Next) -> Response:
        if token is None:
            return await call_next(request)
        if _is_equal(request.query_params.get("token"), token):
            response = RedirectResponse(request.url.path, 303)
            response.set_cookie(COOKIE, token, httponly=True, samesite="strict", path="/")
            return response
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if _is_equal(request.cookies.get(COOKIE), token) or _is_equal(bearer, token):
            return await call_next(request)
        return JSONResponse({"error": "open the address that ctrace serve printed, with its token"}, 401)

    return dispatch


def _is_equal(given: str | None, token: str) -> bool:
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
    import uvicorn

    config = uvicorn.Config(
        application(Store(folder), token, host),
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
    )
    uvicorn.Server(config).run(sockets=[sock])
