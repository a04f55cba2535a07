"""`ctrace serve` under clients that hold it: it answers the others."""

import contextlib
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from ctrace.cli import report_server
from ctrace.cli.report_server import listening, server_of
from ctrace.inspector.runs.store import Store
from tests.cli.test_report_server import saved

SECONDS = 60


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(report_server, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(report_server, "HEADER_SECONDS", 0.5)
    store = Store(tmp_path / ".ctrace")
    for name in ("one", "two", "three", "four"):
        saved(store, name)
    server, sock = server_of(store.root, "127.0.0.1", None), listening("127.0.0.1", 0)
    thread = Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    yield sock.getsockname()[1]
    server.should_exit = True
    thread.join(SECONDS)
    assert not thread.is_alive()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), SECONDS)


def listed(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/runs.json", timeout=SECONDS) as answer:
        found: bytes = answer.read()
    return found


def test_slow_headers_end_and_hold_nobody(port: int):
    with connected(port) as slow, contextlib.suppress(OSError):
        for letter in b"GET / HTTP/1.1\r\nHost: " + b"x" * 1_000:
            slow.sendall(bytes([letter]))
            time.sleep(0.02)
        pytest.fail("the server still reads headers")
    assert b"three" in listed(port)


def test_a_second_request_may_be_no_slower(port: int):
    with connected(port) as slow:
        slow.sendall(b"GET /runs.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        slow.sendall(b"GET /")
        slow.settimeout(SECONDS)
        with contextlib.suppress(ConnectionError):
            while slow.recv(1 << 16):
                pass


def test_silent_connections_are_bounded(port: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(report_server, "MOST", 5)
    monkeypatch.setattr(report_server, "HEADER_SECONDS", 1000.0)
    silent = [connected(port) for _ in range(30)]
    assert b"three" in listed(port)
    ended = 0
    for each in silent:
        each.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            try:
                ended += not each.recv(1)
            except ConnectionError:
                ended += 1
        each.close()
    assert ended >= 25


def test_an_unread_answer_ends(port: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(report_server, "READ_SECONDS", 0.3)
    monkeypatch.setattr("ctrace.reports.html.html_page.render_run_list_html", lambda _folder: "x" * 50_000_000)
    with connected(port) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        time.sleep(2)
        count = 0
        with contextlib.suppress(ConnectionError):
            while data := slow.recv(1 << 20):
                count += len(data)
        assert count < 50_000_000


def test_pages_that_take_long_hold_nobody(port: int, monkeypatch: pytest.MonkeyPatch):
    asleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr("ctrace.cli.report_server.command_of", lambda _root, _names: asleep)
    monkeypatch.setattr("ctrace.cli.report_server._MOST_SECONDS", 1)
    waiting = [connected(port) for _ in range(50)]
    for number, each in enumerate(waiting):
        name = ("one", "two", "three", "four")[number % 4]
        each.sendall(f"GET /run/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    assert b"three" in listed(port)
    found = b""
    while b"longer than 1 s" not in found:
        more = waiting[0].recv(1 << 16)
        assert more
        found += more
    for each in waiting:
        each.close()
