"""`ctrace serve`: what it answers, and whom."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ctrace.cli.report_server import application, listening
from ctrace.inspector.errors import RunError
from ctrace.inspector.facts.outcome import Target
from ctrace.inspector.runs.store import SavedRun, Store
from tests.support.asgi import Client
from tests.support.inprocess import ctrace
from tests.support.places import DATA

TOKEN = "a-token-of-letters"


def saved(store: Store, name: str, log: str = "break_paths.log") -> SavedRun:
    run = store.begin(Target(path=f"{name}.py"), name)
    shutil.copy(DATA / log, run.log)
    return store.finish(run, 1.5, None, {"verdict": "partial", "graphs": 2})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / ".ctrace")
    saved(store, "before")
    saved(store, "after", "fused.log")
    return store


def client(store: Store, token: str | None = None, host: str = "127.0.0.1", name: str = "127.0.0.1:8764") -> Client:
    return Client(application(store, token, host), name)


def test_a_run_that_appears_is_listed(store: Store):
    found = client(store)
    listed = found.get("/runs.json").json()["runs"]
    assert {each["name"] for each in listed} == {"before", "after"}
    assert listed[0]["counts"] == {"graphs": 2}
    saved(store, "third")
    assert found.get("/runs.json").json()["runs"][0]["name"] == "third"


@pytest.mark.thorough
def test_runs_and_differences_are_pages(store: Store):
    found = client(store)
    page = found.get("/run/before")
    assert page.status_code == 200
    assert "sandbox allow-scripts" in page.headers["content-security-policy"]
    assert "Content-Security-Policy" in page.text
    diff = found.get("/diff/before/after")
    assert diff.status_code == 200
    assert "before → after" in diff.text


@pytest.mark.thorough
def test_a_changed_run_is_read_again(store: Store):
    found = client(store)
    before = found.get("/run/before").text
    shutil.copy(DATA / "fused.log", store.root / "before" / "trace.log")
    assert found.get("/run/before").text != before


@pytest.mark.parametrize(
    "path",
    [
        "/run/nope",
        "/run/..%2f..%2fetc%2fpasswd",
        "/run/%2e%2e",
        "/run/.",
        "/run/before%00",
        "/run/before/trace.log",
        "/run//etc/passwd",
        "/diff/before/nope",
        "/diff/..%2fbefore/after",
        "/before/trace.log",
        "/.ctrace/before/trace.log",
        "/run.json",
    ],
)
def test_only_names_in_the_list_are_found(store: Store, path: str):
    (store.root.parent / "secret").mkdir()
    shutil.copytree(store.root / "before", store.root.parent / "secret" / "run")
    answer = client(store).get(path)
    assert answer.status_code == 404
    assert "page" not in answer.headers.get("content-type", "")


def test_a_link_in_the_folder_is_no_run(store: Store):
    outside = store.root.parent / "outside"
    shutil.copytree(store.root / "before", outside)
    (store.root / "linked").symlink_to(outside)
    found = client(store)
    assert found.get("/run/linked").status_code == 404
    assert "linked" not in {each["name"] for each in found.get("/runs.json").json()["runs"]}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/runs.json", "/run/before"])
def test_it_only_reads(store: Store, method: str, path: str):
    assert client(store).request(method, path).status_code == 405


def test_other_names_of_the_host_are_refused(store: Store):
    assert client(store, name="evil.example").get("/runs.json").status_code == 400
    assert client(store, name="localhost:1234").get("/runs.json").status_code == 200


def test_every_answer_has_the_headers(store: Store):
    found = client(store)
    for path in ("/", "/runs.json", "/run/before", "/run/nope", "/nowhere"):
        headers = found.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/runs.json", "/run/before", "/diff/before/after", "/nowhere"])
def test_with_a_token_nothing_is_shown_without_it(store: Store, path: str):
    found = client(store, TOKEN, "0.0.0.0", name="machine.example")
    for wrong in ({}, {"params": {"token": "x"}}, {"headers": {"Authorization": "Bearer é".encode("latin-1")}}):
        answer = found.get(path, **wrong)
        assert answer.status_code == 401
        assert "before" not in answer.text


def test_the_token_moves_into_a_cookie(store: Store):
    found = client(store, TOKEN, "0.0.0.0", name="machine.example")
    answer = found.get("/", params={"token": TOKEN})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "SameSite=strict" in answer.headers["set-cookie"]
    assert found.get("/runs.json").status_code == 200
    fresh = client(store, TOKEN, "0.0.0.0", name="machine.example")
    assert fresh.get("/runs.json", headers={"Authorization": f"Bearer {TOKEN}".encode()}).status_code == 200


def test_what_cannot_be_read_is_named(store: Store):
    newer = store.root / "newer"
    shutil.copytree(store.root / "before", newer)
    info = json.loads((newer / "run.json").read_text())
    (newer / "run.json").write_text(json.dumps({**info, "schema": 999}))
    (store.root / "before" / "trace.log").unlink()
    found = client(store)
    assert "newer" in "".join(found.get("/runs.json").json()["damaged"])
    answer = found.get("/run/before")
    assert answer.status_code == 422
    assert "trace.log" in answer.text


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("nowhere",), "there is no folder nowhere"),
        (("--token", "short"), "--token needs at least 8 letters"),
        (("--token", "with spaces in it"), "--token needs at least 8 letters"),
        (("--host", "203.0.113.7"), "cannot listen on 203.0.113.7"),
    ],
)
def test_bad_requests(store: Store, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], what: str):
    monkeypatch.chdir(store.root.parent)
    found = ctrace("serve", *words)
    assert found.code == 2
    assert what in found.err


def test_a_run_is_no_folder_of_runs(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(store.root.parent)
    assert "is one run" in ctrace("serve", ".ctrace/before").err


def test_a_port_that_is_taken():
    with listening("127.0.0.1", 0) as sock, pytest.raises(RunError, match="cannot listen on"):
        listening("127.0.0.1", sock.getsockname()[1])


def test_other_machines_need_a_token(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(store.root.parent)
    seen: dict[str, Any] = {}
    monkeypatch.setattr("ctrace.cli.report_server.serve", lambda folder, host, sock, token: seen.update(token=token))
    assert "?token=" in ctrace("serve", "--host", "0.0.0.0", "--port", "0").err
    assert len(seen["token"]) > 20
    ctrace("serve", "--port", "0")
    assert seen["token"] is None
