"""Questions of a job and their answers: which changes count, and what makes a result not reusable."""

import os
import py_compile
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ctrace.inspector.facts.outcome import Asked
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.check.check_model import CheckedState, CheckJob, FinishedJob, JobKey, SeenJob
from ctrace.inspector.features.check.policy_model import Count
from ctrace.inspector.features.check.reuse import Reuse
from ctrace.inspector.processes.system_calls import answer, listing, stamp
from ctrace.inspector.runs.answers import ObservedAnswers
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.circumstances import file_digest
from tests.support.sampling import sampled

KEY = JobKey("net.py")
STATE = CheckedState(KEY, "2.13", {Count.GRAPHS: 1}, 100.0)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("net.py", "data/one", "library/a.py", "native.bin"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("text\n" if name != "net.py" else "model = 1\n")
    (folder / "link").symlink_to("net.py")
    return folder


NOTHING = Asked()


def checked(observed: ObservedAnswers, asked: Asked = NOTHING) -> Reuse:
    """Save a result with these questions."""
    job = CheckJob(KEY, "net.py", Options(trace_only=True))
    path = Path("net.py").absolute()
    session = Session(made_of={str(path): file_digest(path)}, asked=asked)
    reuse = Reuse(Path(".ctrace"), Path.cwd(), ())
    reuse.keep(FinishedJob(job, session, observed=msgspec.json.encode(observed).decode()), SeenJob(job, STATE))
    return reuse


def steps(*acts: Callable[[], object]) -> Callable[[], object]:
    """Return one act that does several."""

    def act() -> None:
        for each in acts:
            each()

    return act


def is_reused() -> bool:
    job = CheckJob(KEY, "net.py", Options(trace_only=True))
    return Reuse(Path(".ctrace"), Path.cwd(), ()).find(job) is not None


def all_questions() -> tuple[ObservedAnswers, Asked]:
    here = Path.cwd()

    def at(name: str) -> str:
        return str(here / name)

    looked = ("net.py", "missing", "no/folder/x", "link", "data", "extra")
    observed = ObservedAnswers(
        looked={at(name): answer(at(name)) for name in looked},
        read={
            at(name): tuple(stamp(at(name))) for name in ("native.bin", "library/b.so", "net.py") if Path(name).exists()
        },
        listed={at("data"): (1, tuple(listing(at("data")))), str(here): (2, tuple(listing(str(here))))},
    )
    asked = Asked(
        variables=("ASKED", "MISSING"),
        modules={str(here): ("extra", "net"), at("data"): ("sub",)},
        listed_by_import={str(here): 2},
        listed_for_packages={at("library"): 1},
        libraries={at("library"): ("a.py",)},
        prefixes=(at("library/"),),
    )
    return observed, asked


@pytest.mark.parametrize(
    "change",
    sampled(
        [
            lambda: Path("missing").touch(),
            lambda: Path("missing").mkdir(),
            lambda: Path("missing").symlink_to("net.py"),
            steps(lambda: Path("no/folder").mkdir(parents=True), lambda: Path("no/folder/x").touch()),
            steps(lambda: Path("link").unlink(), lambda: Path("link").symlink_to("data")),
            lambda: Path("net.py").chmod(0o755),
            steps(lambda: shutil.rmtree("data"), lambda: Path("data").touch()),
            lambda: Path("data/two").touch(),
            steps(lambda: Path("data/one").unlink(), lambda: Path("data/one").mkdir()),
            lambda: Path("extra.py").touch(),
            steps(lambda: Path("extra").mkdir(), lambda: Path("extra/__init__.py").touch()),
            lambda: Path("extra.cpython-311-x86_64-linux-gnu.so").touch(),
            lambda: Path("data/sub.py").touch(),
            lambda: Path("native.bin").write_text("txet\n"),
            lambda: os.utime("library/a.py"),
            lambda: Path("library/x-1.0.dist-info").mkdir(),
            lambda: os.environ.update(ASKED="2"),
            lambda: os.environ.update(MISSING=""),
            lambda: os.environ.pop("ASKED"),
        ]
    ),
)
def test_another_answer_counts(change: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKED", "1")
    monkeypatch.setenv("MISSING", "to restore")
    monkeypatch.delenv("MISSING")
    reuse = checked(*all_questions())
    assert reuse.notes == ()
    assert is_reused()
    change()
    assert not is_reused()


@pytest.mark.parametrize(
    "change",
    sampled(
        [
            lambda: None,
            lambda: os.utime("net.py"),
            lambda: os.utime("native.bin"),
            lambda: Path("unrelated.py").touch(),
            lambda: Path("notes.txt").touch(),
            lambda: Path("missing2").touch(),
            lambda: Path("extra.txt").touch(),
            steps(lambda: Path("data/__pycache__").mkdir(), lambda: Path("__pycache__").mkdir()),
            lambda: Path("data/one").write_text("two\n"),
            lambda: os.environ.update(NEITHER_ASKED_NOR_NATIVE="1", SHLVL="7", _="/bin/x"),
        ]
    ),
)
def test_the_same_answers_are_reused(change: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEITHER_ASKED_NOR_NATIVE", "SHLVL", "_"):
        monkeypatch.setenv(name, "0")
    checked(*all_questions())
    change()
    assert is_reused()


def test_any_variable_counts_if_all_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    checked(ObservedAnswers(), Asked(all_variables=True))
    assert is_reused()
    monkeypatch.setenv("ANY_OTHER", "1")
    assert not is_reused()


def test_a_variable_in_a_native_library_counts(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = project / "own.so"
    library.write_bytes(b"\x7fELF\0NATIVE_FLAG\0")
    checked(ObservedAnswers(read={str(library): tuple(stamp(str(library)))}))
    monkeypatch.setenv("UNKNOWN_FLAG", "1")
    assert is_reused()
    monkeypatch.setenv("NATIVE_FLAG", "1")
    assert not is_reused()


def test_no_value_of_a_variable_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "a-secret-value")
    checked(ObservedAnswers(), Asked(variables=("API_KEY",)))
    (file,) = Path(".ctrace/.checked").glob("*.json")
    assert "API_KEY" in file.read_text()
    assert "a-secret-value" not in file.read_text()


@pytest.mark.parametrize(
    ("observed", "asked", "why"),
    [
        (ObservedAnswers(hidden="it calls chroot"), Asked(), "chroot"),
        (ObservedAnswers(ran=("/usr/bin/date",)), Asked(), "it starts a process: /usr/bin/date"),
        (ObservedAnswers(), Asked(deeds={"uses the network": ("net.py", 3)}), "net.py:3 uses the network"),
        (
            ObservedAnswers(ran=("/bin/sh",)),
            Asked(deeds={"starts a process": ("net.py", 3)}),
            "net.py:3 starts a process",
        ),
        (ObservedAnswers(connected=("/run/x",)), Asked(), "it connects to /run/x"),
        (ObservedAnswers(looked={"/nowhere/x": "f644:3"}), Asked(), "/nowhere/x changed while it ran"),
        (ObservedAnswers(listed={"/nowhere": (1, ("x/f",))}), Asked(), "came or went"),
    ],
)
def test_what_nobody_can_ask_again_is_not_reused(observed: ObservedAnswers, asked: Asked, why: str) -> None:
    (note,) = checked(observed, asked).notes
    assert note.startswith("not cached: net.py: ")
    assert why in note
    assert not is_reused()


def test_tools_that_only_read_files_may_run() -> None:
    assert (
        checked(ObservedAnswers(ran=("/usr/sbin/ldconfig",)), Asked(deeds={"starts a process": ("x", 1)})).notes == ()
    )
    assert is_reused()


def test_a_file_that_changed_meanwhile_is_not_reused(project: Path) -> None:
    before = tuple(stamp("native.bin"))
    Path("native.bin").write_text("later")
    (note,) = checked(ObservedAnswers(read={str(project / "native.bin"): before})).notes
    assert note == "not cached: net.py: native.bin changed while it ran"


@pytest.mark.parametrize("is_library", [True, False])
def test_a_librarys_file_may_get_another_link_meanwhile(project: Path, is_library: bool) -> None:
    path = project / "library/a.py"
    before = tuple(stamp(str(path)))
    (project / "other-environment").hardlink_to(path)
    asked = Asked(prefixes=(f"{project}/library/",) if is_library else ())
    assert bool(checked(ObservedAnswers(read={str(path): before}), asked).notes) is not is_library


def test_a_file_that_is_read_and_appended_to_is_not_reused(project: Path) -> None:
    path = str(project / "native.bin")
    (note,) = checked(ObservedAnswers(read={path: tuple(stamp(path))}, written=(path,))).notes
    assert note == "not cached: net.py: it reads and writes native.bin"


def test_only_modules_that_were_looked_for_matter_in_a_folder_of_the_path(project: Path) -> None:
    before = tuple(each for each in listing(str(project)) if not each.startswith("link"))
    observed = ObservedAnswers(listed={str(project): (1, before)})
    asked = Asked(modules={str(project): ("net", "extra")}, listed_by_import={str(project): 1})
    assert checked(observed, asked).notes == (), "another model made a file meanwhile"
    asked = Asked(modules={str(project): ("link",)}, listed_by_import={str(project): 1})
    assert "came or went" in checked(observed, asked).notes[0]
    assert "came or went" in checked(observed).notes[0], "the program itself listed the folder"


def test_two_entries_of_one_module_are_in_one_order(project: Path) -> None:
    """A listing with kinds sorts `both/d` after `both.so/f`."""
    (project / "both").mkdir()
    (project / "both.so").touch()
    observed = ObservedAnswers(listed={str(project): (1, tuple(listing(str(project))))})
    asked = Asked(modules={str(project): ("both",)}, listed_by_import={str(project): 1})
    assert checked(observed, asked).notes == ()
    assert is_reused()


def compiled(mode: py_compile.PycInvalidationMode) -> Path:
    Path("part.py").write_text("x = 1\n")
    return Path(py_compile.compile("part.py", invalidation_mode=mode) or "").absolute()


def test_what_python_compiles_meanwhile_is_no_answer(project: Path) -> None:
    """Python finds no compiled file, makes the folder, and writes the file under a name with a number."""
    missing = (
        project / "__pycache__",
        *(project / f"__pycache__/part.cpython-311.pyc{each}" for each in ("", ".12345")),
    )
    path = compiled(py_compile.PycInvalidationMode.TIMESTAMP)
    read = {str(path): tuple(stamp(str(path)))}
    path.write_bytes(path.read_bytes())
    assert checked(ObservedAnswers(looked=dict.fromkeys(map(str, missing), ""), read=read)).notes == ()
    assert is_reused()
    shutil.rmtree("__pycache__")
    assert is_reused()


@pytest.mark.parametrize("name", ["part.pyc", "__pycache__/data.json", "__pycache__/gone.cpython-311.pyc"])
def test_other_compiled_files_count(project: Path, name: str) -> None:
    """A module without its source, and what a program keeps in Python's folder."""
    path = project / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(16))
    assert checked(ObservedAnswers(read={str(path): tuple(stamp(str(path)))})).notes == ()
    assert is_reused()
    path.write_bytes(bytes(15) + b"1")
    assert not is_reused()


def test_a_compiled_file_that_is_not_compared_with_its_source_counts() -> None:
    path = compiled(py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert checked(ObservedAnswers(read={str(path): tuple(stamp(str(path)))})).notes == ()
    assert is_reused()
    path.write_bytes(path.read_bytes() + b"1")
    assert not is_reused()


def test_without_observation_nothing_is_reused() -> None:
    job = CheckJob(KEY, "net.py", Options(trace_only=True))
    reuse = Reuse(Path(".ctrace"), Path.cwd(), ())
    session = Session(made_of={str(Path("net.py").absolute()): file_digest(Path("net.py"))})
    reuse.keep(FinishedJob(job, session, observed=""), SeenJob(job, STATE))
    assert "cannot see here" in reuse.notes[0]
    assert not is_reused()


def test_reasons_are_grouped_and_few() -> None:
    reuse = Reuse(Path(".ctrace"), Path.cwd(), ())
    session = Session(made_of={str(Path("net.py").absolute()): file_digest(Path("net.py"))})
    for number in range(9):
        job = CheckJob(JobKey(f"m{number}.py"), "net.py", Options(trace_only=True))
        why = ObservedAnswers(hidden="one reason" if number < 2 else f"reason {number}")
        reuse.keep(FinishedJob(job, session, observed=msgspec.json.encode(why).decode()), SeenJob(job, STATE))
    assert reuse.notes[0] == "not cached: m0.py, m1.py: ctrace cannot see all that it asks: one reason"
    assert (len(reuse.notes), reuse.notes[-1]) == (6, "not cached: 3 more reasons")


def test_a_large_file_counts_by_its_identity(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctrace.inspector.runs.answers._MOST_BYTES", 3)
    path = project / "native.bin"
    assert checked(ObservedAnswers(read={str(path): tuple(stamp(str(path)))})).notes == ()
    assert is_reused()
    times = path.stat()
    path.write_text("txet\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert not is_reused()
