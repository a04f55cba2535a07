"""The cases of `check_cache.py`: what a model asks, and what changes between two checks."""

import os
import py_compile
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy

Act = Callable[[Path], object]
Variables = Callable[[Path], dict[str, str | None]]


def _nothing(_place: Path) -> None:
    """Change nothing."""


def _no_variables(_place: Path) -> dict[str, str | None]:
    return {}


@dataclass(frozen=True)
class Case:
    """A model and a change."""

    kind: str
    name: str
    code: str
    """Sets BREAK: whether the model's graph breaks."""
    change: Act = _nothing
    before: Act = _nothing
    changes: bool = True
    is_alone: bool = False
    """Whether the change reaches other models, too."""
    is_chance: bool = False
    """Whether the second check may come to the same result although something changed."""
    first: Variables = _no_variables
    second: Variables = _no_variables
    wrapper: Sequence[str] = field(default=())


def _write(name: str, text: str = "1") -> Act:
    def act(place: Path) -> None:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return act


def _writes(files: dict[str, str]) -> Act:
    def act(place: Path) -> None:
        for name, text in files.items():
            _write(name, text)(place)

    return act


def _appears(name: str, code: str, path: str, text: str = "1", before: Act = _nothing) -> Case:
    return Case("missing and appears", name, code, _write(path, text), before)


_TRY = """
try:
    {}
    BREAK = True
except {}:
    BREAK = False
"""
_METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"

MISSING = (
    _appears("import", _TRY.format("import extra_module", "ImportError"), "extra_module.py", ""),
    _appears("import of a package", _TRY.format("import extra_package", "ImportError"), "extra_package/__init__.py",
             ""),
    _appears("submodule of an own package", _TRY.format("import pack.extra", "ImportError"), "pack/extra.py", "",
             _write("pack/__init__.py", "")),
    _appears("find_spec", 'BREAK = importlib.util.find_spec("extra_found") is not None', "extra_found.py", ""),
    _appears("open", _TRY.format('open(HERE / "flag")', "OSError"), "flag"),
    _appears("os.path.exists", 'BREAK = os.path.exists(HERE / "flag")', "flag"),
    _appears("Path.exists", 'BREAK = (HERE / "flag").exists()', "flag"),
    _appears("Path.is_file", 'BREAK = (HERE / "flag").is_file()', "flag"),
    _appears("os.path.isdir", 'BREAK = os.path.isdir(HERE / "folder")', "folder/x"),
    _appears("os.stat", _TRY.format('os.stat(HERE / "flag")', "OSError"), "flag"),
    _appears("os.access", 'BREAK = os.access(HERE / "flag", os.R_OK)', "flag"),
    _appears("in a folder that is missing", 'BREAK = os.path.exists(HERE / "a/b/flag")', "a/b/flag"),
    _appears("importlib.metadata", _TRY.format('importlib.metadata.version("extra-dist")',
             "importlib.metadata.PackageNotFoundError"), "extra_dist-1.0.dist-info/METADATA",
             _METADATA.format("extra-dist", "1.0")),
    _appears("a nearer module hides a library's",
             'import networkx\nBREAK = not hasattr(networkx, "Graph")', "networkx.py", ""),
    _appears("a nearer module hides one of Python's", 'import colorsys\nBREAK = not hasattr(colorsys, "rgb_to_hsv")',
             "colorsys.py", ""),
    _appears("a nearer module on sys.path",
             'sys.path[:0] = [str(HERE / "near"), str(HERE / "far")]\nfrom twice import BREAK', "near/twice.py",
             "BREAK = True", _write("far/twice.py", "BREAK = False")),
    _appears("a namespace package gains a part",
             'sys.path += [str(HERE / "p1"), str(HERE / "p2")]\nimport spaced\nBREAK = len(list(spaced.__path__)) > 1',
             "p2/spaced/two.py", "", _write("p1/spaced/one.py", "")),
    _appears("native code", 'BREAK = ctypes.CDLL(None).access(str(HERE / "flag").encode(), 0) == 0', "flag"),
    _appears("a file of settings in one of several folders",
             'BREAK = any((HERE / each / "net.cfg").exists() for each in ("", "conf", "x"))', "conf/net.cfg"),
)  # fmt: skip


def _lists(name: str, code: str, path: str = "data/two.txt", before: str = "data/one.txt") -> Case:
    return Case("listing", name, code, _write(path), _write(before))


LISTINGS = (
    _lists("os.listdir", 'BREAK = len(os.listdir(HERE / "data")) > 1'),
    _lists("os.scandir", 'BREAK = len([*os.scandir(HERE / "data")]) > 1'),
    _lists("glob.glob", 'BREAK = len(glob.glob(f"{HERE}/data/*.txt")) > 1'),
    _lists("Path.iterdir", 'BREAK = len([*(HERE / "data").iterdir()]) > 1'),
    _lists("Path.glob", 'BREAK = len([*HERE.glob("data/t*")]) > 0'),
    _lists("Path.rglob", 'BREAK = len([*HERE.rglob("*.txt")]) > 1', "data/below/two.txt"),
    _lists("os.walk", 'BREAK = sum(len(files) for _, _, files in os.walk(HERE / "data")) > 1', "data/below/two.txt"),
    _lists("pkgutil.iter_modules", 'BREAK = len([*pkgutil.iter_modules([str(HERE / "data")])]) > 1', "data/two.py",
           "data/one.py"),
    _lists("os.listdir of a descriptor",
           'BREAK = len(os.listdir(os.open(HERE / "data", os.O_RDONLY | os.O_DIRECTORY))) > 1'),
    _lists("the model's own folder", 'BREAK = any(each.name == "two.txt" for each in HERE.iterdir())', "two.txt"),
    _lists("importlib.resources", 'import importlib.resources\nimport data\n'
           'BREAK = len([each for each in importlib.resources.files(data).iterdir() if each.name.endswith("t")]) > 0',
           before="data/__init__.py"),
    _lists("native code", """
libc = ctypes.CDLL(None)
libc.opendir.restype = ctypes.c_void_p
libc.readdir.argtypes, libc.readdir.restype = [ctypes.c_void_p], ctypes.c_void_p
folder, number = libc.opendir(str(HERE / "data").encode()), 0
while libc.readdir(folder): number += 1
BREAK = number > 3
"""),
)  # fmt: skip


def _link(name: str, target: str) -> Act:
    def act(place: Path) -> None:
        path = place / name
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return act


def _acts(*acts: Act) -> Act:
    def act(place: Path) -> None:
        for each in acts:
            each(place)

    return act


def _same_size_and_time(place: Path) -> None:
    path = place / "flag"
    before = path.stat()
    path.write_text("1", encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replaced_same_time(place: Path) -> None:
    path, new = place / "flag", place / "new"
    new.write_text("1", encoding="utf-8")
    os.utime(new, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    new.replace(path)


def _large_same_time(place: Path) -> None:
    path = place / "large"
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"1")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _make_large(place: Path) -> None:
    with (place / "large").open("wb") as file:
        file.truncate(80 << 20)


_TWO = _acts(_write("zero/flag", "0"), _write("one/flag", "1"))


def _changed(name: str, code: str, change: Act, before: Act) -> Case:
    return Case("link, rights, size, time", name, code, change, before)


LINKS = (
    _changed("a file's link", 'BREAK = (HERE / "link").read_text() == "1"', _link("link", "one/flag"),
             _acts(_TWO, _link("link", "zero/flag"))),
    _changed("a folder's link", 'BREAK = (HERE / "link/flag").read_text() == "1"', _link("link", "one"),
             _acts(_TWO, _link("link", "zero"))),
    _changed("os.readlink", 'BREAK = os.readlink(HERE / "link") == "one"', _link("link", "one"),
             _acts(_TWO, _link("link", "zero"))),
    _changed("Path.resolve", 'BREAK = (HERE / "link").resolve().name == "one"', _link("link", "one"),
             _acts(_TWO, _link("link", "zero"))),
    _changed("a file becomes a link", 'BREAK = os.path.islink(HERE / "link")', _link("link", "zero/flag"),
             _acts(_TWO, _write("link", "0"))),
    _changed("a dangling link comes to life", 'BREAK = (HERE / "link").exists()', _write("later"),
             _link("link", "later")),
    _changed("a link of a module", "import linked\nBREAK = linked.BREAK", _link("linked.py", "b.py"),
             _acts(_writes({"a.py": "BREAK = False", "b.py": "BREAK = True"}), _link("linked.py", "a.py"))),
    _changed("rights", 'BREAK = os.access(HERE / "flag", os.X_OK)', lambda place: (place / "flag").chmod(0o755),
             _write("flag")),
    _changed("size", 'BREAK = os.path.getsize(HERE / "flag") > 1', _write("flag", "12"), _write("flag", "1")),
    _changed("time", 'BREAK = os.path.getmtime(HERE / "flag") < 1000', lambda place: os.utime(place / "flag", (9, 9)),
             _write("flag")),
    _changed("same size and time", 'BREAK = (HERE / "flag").read_text() == "1"', _same_size_and_time,
             _write("flag", "0")),
    _changed("replaced by one of the same time", 'BREAK = (HERE / "flag").read_text() == "1"', _replaced_same_time,
             _write("flag", "0")),
    _changed("80 MB, same size and time", """
with open(HERE / "large", "rb") as file:
    file.seek(-1, 2)
    BREAK = file.read() == b"1"
""", _large_same_time, _make_large),
    _changed("a file becomes a folder", 'BREAK = (HERE / "flag").is_dir()',
             _acts(lambda place: (place / "flag").unlink(), _write("flag/x")), _write("flag")),
)  # fmt: skip


def _variable(
    name: str, code: str, before: str | None = None, after: str | None = "1", variable: str = "STUDY_FLAG"
) -> Case:
    return Case(
        "environment", name, code, is_alone=True,
        first=lambda _place: {variable: before}, second=lambda _place: {variable: after},
    )  # fmt: skip


ENVIRONMENT = (
    _variable("os.environ[...]", 'BREAK = "STUDY_FLAG" in os.environ and os.environ["STUDY_FLAG"] == "1"', "0"),
    _variable("os.getenv, it appears", 'BREAK = os.getenv("STUDY_FLAG") == "1"'),
    _variable("os.environ.get, it vanishes", 'BREAK = os.environ.get("STUDY_FLAG") is None', "1", None),
    _variable("os.path.expandvars", 'BREAK = os.path.expandvars("$STUDY_FLAG") == "1"', "0"),
    _variable("os.path.expanduser", 'BREAK = os.path.expanduser("~").endswith("other")', "/", "/tmp/other", "HOME"),
    _variable("Path.home", 'BREAK = Path.home().name == "other"', "/", "/tmp/other", "HOME"),
    _variable("os.environ.copy", 'BREAK = os.environ.copy().get("STUDY_FLAG") == "1"', "0"),
    _variable("os.environb", 'BREAK = os.environb.get(b"STUDY_FLAG") == b"1"', "0"),
    _variable("os.getenvb", 'BREAK = os.getenvb(b"STUDY_FLAG") == b"1"', "0"),
    _variable("iteration", 'BREAK = any(name.startswith("STUDY") for name in os.environ)'),
    _variable("getattr", 'BREAK = getattr(os, "env" + "iron").get("STUDY_FLAG") == "1"', "0"),
    _variable("native code", 'ctypes.CDLL(None).getenv.restype = ctypes.c_char_p\n'
              'BREAK = ctypes.CDLL(None).getenv(b"STUDY_FLAG") is not None or ctypes.c_char_p.from_param is None'),
    _variable("a process inherits it", """
found = subprocess.run(["sh", "-c", "echo $STUDY_FLAG"], capture_output=True, text=True).stdout.strip()
BREAK = found == "1"
""", "0"),
    _variable("tempfile.gettempdir", 'import tempfile\nBREAK = tempfile.gettempdir() == "/var/tmp"', "/tmp", "/var/tmp",
              "TMPDIR"),
    _variable("the time zone", 'import time\nBREAK = time.tzname[0] == "XYZ"', "UTC", "XYZ3", "TZ"),
    Case("environment", "a library reads it", "import library\nBREAK = library.FLAG", is_alone=True,
         before=_write("site-packages/library.py", 'import os\nFLAG = os.environ.get("STUDY_FLAG") == "1"'),
         first=lambda place: {"PYTHONPATH": str(place / "site-packages"), "STUDY_FLAG": "0"},
         second=lambda place: {"PYTHONPATH": str(place / "site-packages"), "STUDY_FLAG": "1"}),
)  # fmt: skip


def _database(value: int) -> Act:
    def act(place: Path) -> None:
        with sqlite3.connect(place / "data.db") as database:
            database.execute("create table if not exists t (x)")
            database.execute("delete from t")
            database.execute("insert into t values (?)", (value,))
        database.close()

    return act


def _array(value: int) -> Act:
    return lambda place: numpy.save(place / "data.npy", numpy.full(4, value))


def _raw(value: int) -> Act:
    return lambda place: numpy.full(4, value, "int64").tofile(place / "data.bin")


def _tensor(value: int) -> Act:
    code = "import sys, torch; torch.save(torch.full((4,), int(sys.argv[2])), sys.argv[1])"
    return lambda place: subprocess.run([sys.executable, "-c", code, place / "data.pt", str(value)], check=True)


def _reads(name: str, code: str, of: Callable[[int], Act] = lambda value: _write("flag", str(value))) -> Case:
    return Case("read in another way", name, code, of(1), of(0))


READS = (
    _reads("numpy.memmap", 'BREAK = bool(numpy.memmap(HERE / "data.bin", "int64", "r")[0] == 1)', _raw),
    _reads("numpy.memmap for writing", 'BREAK = bool(numpy.memmap(HERE / "data.bin", "int64", "r+")[0] == 1)', _raw),
    _reads("numpy.load with mmap_mode", 'BREAK = bool(numpy.load(HERE / "data.npy", mmap_mode="r")[0] == 1)', _array),
    _reads("numpy.fromfile", 'BREAK = bool(numpy.fromfile(HERE / "data.bin", "int64")[0] == 1)', _raw),
    _reads("sqlite3", 'BREAK = sqlite3.connect(HERE / "data.db").execute("select x from t").fetchone()[0] == 1',
           _database),
    _reads("torch.load with mmap", 'BREAK = bool(torch.load(HERE / "data.pt", mmap=True)[0] == 1)', _tensor),
    _reads("torch.from_file",
           'BREAK = bool(torch.from_file(str(HERE / "data.bin"), size=4, dtype=torch.int64)[0] == 1)', _raw),
    _reads("native open", """
libc = ctypes.CDLL(None)
number, data = libc.open(str(HERE / "flag").encode(), 0), ctypes.create_string_buffer(4)
libc.read(number, data, 4)
BREAK = data.value == b"1"
"""),
    _reads("native fopen", """
libc = ctypes.CDLL(None)
libc.fopen.restype, libc.fgetc.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
BREAK = libc.fgetc(libc.fopen(str(HERE / "flag").encode(), b"r")) == ord("1")
"""),
    _reads("os.open", 'BREAK = os.read(os.open(HERE / "flag", os.O_RDONLY), 9) == b"1"'),
    _reads("mmap", 'BREAK = mmap.mmap(os.open(HERE / "flag", os.O_RDONLY), 0, access=mmap.ACCESS_READ)[:1] == b"1"'),
    _reads("in a process", 'BREAK = subprocess.check_output(["cat", HERE / "flag"]) == b"1"'),
    _reads("in a fork", """
reading, writing = os.pipe()
if not os.fork():
    os.write(writing, (HERE / "flag").read_bytes())
    os._exit(0)
os.wait()
BREAK = os.read(reading, 9) == b"1"
"""),
    _reads("relative to another folder", 'os.chdir(HERE)\nBREAK = open("flag").read() == "1"\nos.chdir("..")'),
    _reads("relative to a descriptor",
           'BREAK = os.read(os.open("flag", os.O_RDONLY, dir_fd=os.open(HERE, os.O_RDONLY)), 9) == b"1"'),
    _reads("in a thread", """
import threading
found = []
thread = threading.Thread(target=lambda: found.append((HERE / "flag").read_text()))
thread.start(); thread.join()
BREAK = found == ["1"]
"""),
    Case("read in another way", "a module in an archive",
         'sys.path.insert(0, str(HERE / "pack.zip"))\nimport zipped\nBREAK = zipped.BREAK',
         lambda place: _archive(place, "True"), lambda place: _archive(place, "False")),
    Case("read in another way", "a compiled module without its source", "import part\nBREAK = part.FLAG",
         lambda place: _compiled(place, "True"), lambda place: _compiled(place, "False")),
    Case("read in another way", "a compiled module that is not compared with its source",
         "import part\nBREAK = part.FLAG", lambda place: _unchecked(place, "True"),
         lambda place: _unchecked(place, "False")),
    Case("read in another way", "data in the folder of compiled files",
         'BREAK = (HERE / "__pycache__/flag").read_text() == "1"', _write("__pycache__/flag", "1"),
         _write("__pycache__/flag", "0")),
    Case("read in another way", "a file that the model appends to", """
with open(HERE / "counter", "a") as file: file.write("x")
BREAK = len((HERE / "counter").read_text()) > 1
""", before=_write("counter", "")),
    Case("read in another way", "a file that the model counts up", """
number = int((HERE / "counter").read_text())
(HERE / "counter").write_text(str(number + 1))
BREAK = number > 0
""", before=_write("counter", "0")),
    Case("read in another way", "a mark that the model leaves", """
BREAK = (HERE / "mark").exists()
(HERE / "mark").touch()
"""),
)  # fmt: skip


def _compiled(place: Path, value: str) -> None:
    _write("part.py", f"FLAG = {value}")(place)
    py_compile.compile(str(place / "part.py"), str(place / "part.pyc"))
    (place / "part.py").unlink()


def _unchecked(place: Path, value: str) -> None:
    """Compile a module, and put another source in its place."""
    _write("part.py", f"FLAG = {value}")(place)
    py_compile.compile(str(place / "part.py"), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    _write("part.py", "1/0")(place)


def _archive(place: Path, value: str) -> None:
    _write("inside/zipped.py", f"BREAK = {value}\n#{time.time_ns()}")(place)
    shutil.make_archive(str(place / "pack"), "zip", place / "inside")
    shutil.rmtree(place / "inside")


_SERVER = {"answer": b"0"}


def _serve(place: Path) -> None:
    """Answer every connection in this process with the current answer."""
    _SERVER["answer"] = b"0"
    server = socket.create_server(("127.0.0.1", 0))
    (place / "port").write_text(str(server.getsockname()[1]), encoding="utf-8")

    def run() -> None:
        while True:
            connection, _ = server.accept()
            connection.sendall(_SERVER["answer"])
            connection.close()

    threading.Thread(target=run, daemon=True).start()


def _answer(_place: Path) -> None:
    _SERVER["answer"] = b"1"


def _git(place: Path, *words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, *words], cwd=place, check=True, capture_output=True)


def _repository(place: Path) -> None:
    _git(place, "init")
    _git(place, "commit", "--allow-empty", "-m", "one")


_DEADLINE = 40.0
"""Seconds after which a model that reads the clock changes; the first check must be done by then."""


def _deadline(place: Path) -> None:
    (place / "deadline").write_text(str(time.time() + _DEADLINE), encoding="utf-8")


def _wait(place: Path) -> None:
    time.sleep(max(float((place / "deadline").read_text()) - time.time(), 0) + 0.5)


def _clock(name: str, code: str) -> Case:
    return Case("not repeatable", name, f'LATE = float((HERE / "deadline").read_text())\n{code}', _wait, _deadline,
                is_alone=True, is_chance=True)  # fmt: skip


def _chance(name: str, code: str) -> Case:
    return Case("not repeatable", name, code, is_chance=True)


UNREPEATABLE = (
    _clock("time.time", "import time\nBREAK = time.time() > LATE"),
    _clock("datetime.now", "from datetime import datetime\nBREAK = datetime.now().timestamp() > LATE"),
    _chance("date.today", "import datetime\nBREAK = datetime.date.today().year > 3000"),
    _chance("random", "import random\nBREAK = random.random() > 2"),
    _chance("os.urandom", "BREAK = os.urandom(1) == b''"),
    _chance("uuid", "import uuid\nBREAK = not uuid.uuid4()"),
    _chance("os.getpid", "BREAK = os.getpid() == 0"),
    _chance("/proc/meminfo", 'BREAK = "MemFree" not in open("/proc/meminfo").read()'),
    _chance("os.getloadavg", "BREAK = os.getloadavg()[0] < 0"),
    _chance("torch.get_num_threads", "BREAK = torch.get_num_threads() < 0"),
    Case("not repeatable", "a server of this machine", """
import socket
BREAK = socket.create_connection(("127.0.0.1", int((HERE / "port").read_text()))).recv(9) == b"1"
""", _answer, _serve),
    Case("not repeatable", "git", 'BREAK = len(subprocess.check_output(["git", "-C", HERE, "log", "--oneline"])'
         '.splitlines()) > 1', lambda place: _git(place, "commit", "--allow-empty", "-m", "two"), _repository),
    Case("not repeatable", "os.system", 'BREAK = os.system(f"grep -q 1 {HERE}/flag") == 0', _write("flag", "1"),
         _write("flag", "0")),
    Case("not repeatable", "os.popen", 'BREAK = os.popen(f"cat {HERE}/flag").read() == "1"', _write("flag", "1"),
         _write("flag", "0")),
    Case("not repeatable", "cores", "BREAK = len(os.sched_getaffinity(0)) == 1", is_alone=True,
         wrapper=("taskset", "-c", "0")),
)  # fmt: skip


def _library(version: str, flag: str, name: str = "library") -> Act:
    def act(place: Path) -> None:
        folder = place / "site-packages"
        shutil.rmtree(folder, ignore_errors=True)
        _writes({
            f"site-packages/{name}/__init__.py": f"FLAG = {flag}\n",
            f"site-packages/{name}-{version}.dist-info/METADATA": _METADATA.format(name, version),
        })(place)  # fmt: skip

    return act


_INSTALLED = _library("1.0", "False")


def _in_library(name: str, code: str, change: Act, before: Act = _INSTALLED) -> Case:
    def variables(place: Path) -> dict[str, str | None]:
        return {"PYTHONPATH": str(place / "site-packages")}

    return Case("library", name, code, change, before, is_alone=True, first=variables, second=variables)


_FLAG = "import library\nBREAK = library.FLAG"
LIBRARIES = (
    _in_library("upgraded", _FLAG, _library("2.0", "True")),
    _in_library("edited in place", _FLAG, _write("site-packages/library/__init__.py", "FLAG = True")),
    _in_library("edited in place, same size and time", _FLAG, lambda place: _edit_keeping_time(place)),
    _in_library("gains a module", _TRY.format("from library import extra", "ImportError"),
                _write("site-packages/library/extra.py", "")),
    _in_library("its data change",
                'import library\nBREAK = Path(library.__file__).with_name("data").read_text() == "1"',
                _write("site-packages/library/data", "1"),
                _acts(_INSTALLED, _write("site-packages/library/data", "0"))),
    _in_library("another package appears", _TRY.format("import other_library", "ImportError"),
                _write("site-packages/other_library.py", "")),
    _in_library("sitecustomize appears", 'BREAK = hasattr(sys, "customized")',
                _write("site-packages/sitecustomize.py", "import sys; sys.customized = 1")),
    _in_library("a version is asked for", 'BREAK = importlib.metadata.version("library") == "2.0"',
                _library("2.0", "False")),
    _in_library("entry points", 'BREAK = len(importlib.metadata.entry_points(group="study")) > 0',
                _write("site-packages/library-1.0.dist-info/entry_points.txt", "[study]\na = library:FLAG\n")),
    _in_library("it is uninstalled", "BREAK = False\ntry:\n    import library\nexcept ImportError:\n    BREAK = True",
                lambda place: shutil.rmtree(place / "site-packages")),
)  # fmt: skip


def _edit_keeping_time(place: Path) -> None:
    path = place / "site-packages/library/__init__.py"
    before = path.stat()
    path.write_text("FLAG = True \n", encoding="utf-8")
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES = (*MISSING, *LISTINGS, *LINKS, *ENVIRONMENT, *READS, *UNREPEATABLE, *LIBRARIES)


def _same(name: str, change: Act, code: str = "BREAK = False", before: Act = _nothing) -> Case:
    return Case("no change", name, code, change, before, changes=False)


def _same_alone(name: str, code: str, first: Variables, second: Variables, before: Act = _nothing) -> Case:
    return Case("no change", name, code, _nothing, before, changes=False, is_alone=True, first=first, second=second)


def _writes_bytecode(place: Path) -> dict[str, str | None]:
    return {"PYTHONDONTWRITEBYTECODE": None, "PYTHONPYCACHEPREFIX": None}


def _writes_bytecode_elsewhere(place: Path) -> dict[str, str | None]:
    return {"PYTHONDONTWRITEBYTECODE": None, "PYTHONPYCACHEPREFIX": str(place / "compiled")}


def _touch(name: str) -> Act:
    return lambda place: os.utime(place / name)


def _rewritten(place: Path) -> None:
    text = (place / "net.py").read_text(encoding="utf-8")
    (place / "net.py").unlink()
    (place / "net.py").write_text(text, encoding="utf-8")


_READS_FLAG = 'BREAK = (HERE / "flag").read_text() == "1"'
NO_CHANGES = (
    _same("nothing", _nothing),
    _same("the model is touched", _touch("net.py")),
    _same("the model is written again, as it was", _rewritten),
    _same("data are touched", _touch("flag"), _READS_FLAG, _write("flag", "0")),
    _same("data are written again, as they were", _write("flag", "0"), _READS_FLAG, _write("flag", "0")),
    _same("an unrelated file appears in another folder", _write("docs/read.me")),
    _same("an unrelated file appears beside the model", _write("notes.txt")),
    _same("an unrelated module appears beside the model", _write("unrelated_module.py", "1/0")),
    _same("an unrelated file vanishes", lambda place: (place / "notes.txt").unlink(), before=_write("notes.txt")),
    _same("a folder appears beside the model", _write("results/x")),
    _same("__pycache__ appears", _write("__pycache__/net.cpython-311.pyc")),
    _same("a file in a listed folder changes", _write("data/one.txt", "2"),
          'BREAK = len(os.listdir(HERE / "data")) > 1', _write("data/one.txt")),
    _same("another file appears where one was missed", _write("flags"), 'BREAK = (HERE / "flag").exists()'),
    _same("a file that only exists changes, at the same size", _write("flag", "2"),
          'BREAK = not (HERE / "flag").exists()', _write("flag", "1")),
    _same("rights of an unrelated file", lambda place: (place / "notes.txt").chmod(0o600), before=_write("notes.txt")),
    _same("a link of an unrelated file", _link("link", "b"), before=_link("link", "a")),
    _same("a commit", lambda place: _git(place, "commit", "--allow-empty", "-m", "two"), before=_repository),
    _same("a file that the model writes",
          lambda place: (place / "out.txt").write_text("other", encoding="utf-8"),
          '(HERE / "out.txt").write_text("x")\nBREAK = (HERE / "out.txt").read_text() != "x"', _write("out.txt", "x")),
    _same("a temporary folder", _nothing, "import tempfile\nwith tempfile.TemporaryDirectory() as folder:\n"
          '    Path(folder, "x").write_text("1")\n    BREAK = not Path(folder, "x").exists()'),
    _same("a seeded generator", _nothing, "import random\nrandom.seed(3)\nBREAK = random.random() > 2"),
    _same("a model that a new process runs", _nothing,
          'getattr(os, "env" + "iron")["TORCHDYNAMO_SUPPRESS_ERRORS"] = "0"\nBREAK = False'),
    _same_alone("Python compiles a module", "import part\nBREAK = False", _writes_bytecode, _writes_bytecode,
                _write("part.py", "")),
    _same_alone("Python compiles a module into a folder of its own", "import part\nBREAK = False",
                _writes_bytecode_elsewhere, _writes_bytecode_elsewhere, _write("part.py", "")),
    _same_alone("an unrelated variable", "BREAK = False", _no_variables, lambda _place: {"STUDY_UNRELATED": "1"}),
    _same_alone("another shell", "BREAK = False", lambda _place: {"SHLVL": "1", "OLDPWD": "/", "_": "/bin/a"},
                lambda _place: {"SHLVL": "2", "OLDPWD": "/tmp", "_": "/bin/b"}),
)  # fmt: skip
