"""Names of runs, kept runs and deleted runs."""

from pathlib import Path

import pytest

from ctrace.inspector.errors import RunError, TargetError
from ctrace.inspector.facts.session import Target
from ctrace.inspector.files.lock import in_use
from ctrace.inspector.runs.run_names import keep, new_name, rename, unkeep
from ctrace.inspector.runs.store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(tmp_path)
    return Store()


def made(store: Store, number: int = 1, name: str | None = None) -> list[str]:
    target = Target("model.py", "model")
    return [store.finish(store.create(target, name), 1.0, None, {}).name for _ in range(number)]


@pytest.mark.parametrize("name", ["before", "v1.2", "größe_2", "a", "एक", "x" * 64, "2"])
def test_names(name: str, store: Store) -> None:
    assert new_name(name, store) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".x", "-x", "a/b", "a\\b", "a:b", "a b", "a\n", "x" * 65, "漢" * 67, "a\u202eb", "a.", "\0"]
)
def test_what_is_no_name(name: str, store: Store) -> None:
    with pytest.raises(TargetError, match="is not a name"):
        new_name(name, store)


def test_a_name_means_one_thing(store: Store) -> None:
    made(store, name="before")
    with pytest.raises(TargetError, match="a run named before exists already"):
        new_name("before", store)
    Path("model.py").write_text("")
    with pytest.raises(TargetError, match="is a file or folder here"):
        new_name("model.py", store)


def test_named_and_kept_runs_stay(store: Store) -> None:
    made(store, name="before")
    (first,) = made(store)
    keep(store, first)
    others = made(store, 12)
    assert [run.name for run in store.runs()] == ["before", first, *others[2:]]
    assert store.prune(0) == others[2:]
    unkeep(store, first)
    assert store.prune(0) == [first]
    assert [run.name for run in store.runs()] == ["before"]


def test_a_run_gets_a_name_and_stays(store: Store) -> None:
    first, second = made(store, 2)
    assert rename(store, first, "before") == "before"
    assert store.load("before").is_kept
    with pytest.raises(TargetError, match="already"):
        rename(store, second, "before")
    with pytest.raises(RunError, match="there is no run"):
        rename(store, first, "after")
    with in_use(store.load(second).folder), pytest.raises(RunError, match="another process is writing or reading"):
        rename(store, second, "after")


def test_a_run_that_newer_ones_replaced_says_so(store: Store) -> None:
    first, *_ = made(store, 11)
    with pytest.raises(RunError, match="it was deleted to make room for newer runs") as caught:
        store.load(first)
    assert "ctrace runs --keep" in caught.value.todo
    last = store.runs()[-1].name
    store.prune(0)
    with pytest.raises(RunError, match="it was deleted by ctrace runs --prune"):
        store.load(last)
    with pytest.raises(RunError, match=r"there is no run never$"):
        store.load("never")


def test_the_list_of_deleted_runs_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctrace.inspector.runs.store._MOST", 3)
    names = made(store, 5)
    for _ in names:
        store.prune(len(store.runs()) - 1)
    assert len((store.root / ".deleted").read_text().splitlines()) == 3
    (store.root / ".deleted").write_bytes(b"\xff\xfe\n[[[[\n[1]\nnull\n")
    with pytest.raises(RunError, match="there is no run x"):
        store.load("x")


def test_links_are_no_runs(store: Store, tmp_path: Path) -> None:
    (name,) = made(store)
    other = Store(tmp_path / "other")
    (elsewhere,) = made(other)
    (store.root / "link").symlink_to(other.root / elsewhere)
    assert [run.name for run in store.runs()] == [name]
    assert store.prune(0) == [name]
    assert [run.name for run in other.runs()] == [elsewhere]
    with pytest.raises(RunError, match="is not one of the runs"):
        keep(store, "link")


def test_a_run_that_is_read_is_not_deleted(store: Store) -> None:
    first, second = made(store, 2)
    with in_use(store.load(first).folder):
        assert store.prune(0) == [second]
    assert store.prune(0) == [first]
