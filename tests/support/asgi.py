"""Call an ASGI application without a server, one request at a time."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode

from tests.support.looped import run


@dataclass
class Answer:
    status_code: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A client that keeps one cookie and follows no redirect."""

    def __init__(self, app: Any, host: str) -> None:
        self.app, self.host, self.cookie = app, host, ""

    def get(self, path: str, params: dict[str, str] | None = None, headers: dict[str, bytes] | None = None) -> Answer:
        return self.request("GET", path, params, headers)

    def request(
        self, method: str, path: str, params: dict[str, str] | None = None, headers: dict[str, bytes] | None = None
    ) -> Answer:
        sent = {
            "host": self.host.encode(),
            **({"cookie": self.cookie.encode()} if self.cookie else {}),
            **(headers or {}),
        }
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": urlencode(params or {}).encode(),
            "headers": [(name.lower().encode(), value) for name, value in sent.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        answer = run(self._called(scope))
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    async def _called(self, scope: dict[str, Any]) -> Answer:
        answer = Answer()
        requests = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> dict[str, Any]:
            if requests:
                return requests.pop()
            await asyncio.sleep(60)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.status_code = message["status"]
                answer.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
            else:
                answer.body += message.get("body", b"")

        await self.app(scope, receive, send)
        return answer
