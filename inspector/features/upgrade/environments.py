"""Make the second environment (`EnvironmentMaker`): a folder with the packages that an upgrade would install.

pip or uv says which packages an upgrade of this environment would install (a dry run, which installs nothing); these go
into a folder of ctrace's own, which comes first on the path of the processes that run models in it. What would not
change is read where it is, and nothing is written there. On the command line, `parted` tells requirements from targets.
"""

import hashlib
import json
import os
import re
import shutil
import ssl
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from ctrace.inspector.errors import CtraceError, RunError, SetupError, TargetError
from ctrace.inspector.features.upgrade.upgrade_model import MadeEnvironment
from ctrace.inspector.files.disk_errors import reason, remedy
from ctrace.inspector.files.lock import in_use, unused
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.files.typed_json import read_object
from ctrace.inspector.files.writing import write_json, write_text
from ctrace.inspector.processes.boot import Interpreter
from ctrace.inspector.runs.child import ChildProcess

_MARKS = ("==", ">=", "~=", "@")
_FORM = re.compile(r"(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?:\[[\w.,\s-]*\])?\s*(?P<rest>(?:==|>=|~=|@).+)")
_SINGLE = re.compile(r"[A-Za-z0-9][\w.-]*=[\d.]+\S*")
_BARE = re.compile(r"[A-Za-z0-9][\w-]*")
"""The name of a package alone; a model is a file, or has a dot or a colon."""


class Requirement(Struct, frozen=True):
    """A requirement as pip takes it."""

    text: str
    name: str
    """Normalized: `Torch_Geometric` is `torch-geometric`."""


def normalized(name: str) -> str:
    """Return the name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parted(words: Iterable[str]) -> tuple[list[Requirement], list[str]]:
    """Part words into requirements, which have one of `==`, `>=`, `~=` and `@`, and targets.

    Raises:
        TargetError: a requirement cannot be read, or a package is named twice or without a version.
    """
    requirements, targets = list[Requirement](), list[str]()
    for word in words:
        if any(mark in word for mark in _MARKS):
            requirements.append(requirement(word))
        elif _SINGLE.fullmatch(word):
            raise TargetError(f"{word} is neither a requirement nor a model", f"write {word.replace('=', '==', 1)}")
        # A folder may have the name of a package.
        elif _BARE.fullmatch(word) and not Path(word).exists():
            raise TargetError(f"{word} names no version", f"write one as for pip: {word}==VERSION")
        else:
            targets.append(word)
    names = [each.name for each in requirements]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise TargetError(f"{twice} is named twice", "name each package once")
    return requirements, targets


def requirement(text: str) -> Requirement:
    """Read a requirement.

    Raises:
        TargetError: it has no name or no version.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None or any(letter.isspace() for letter in match["rest"].removeprefix("@").strip()):
        raise TargetError(f"{text} is no requirement", "write one as for pip: torch==2.15.0")
    return Requirement(text.strip(), normalized(match["name"]))


_FOLDER = "environments"
_READY = "environment.json"
_PACKAGES = "site-packages"
_TEMPORARY = "tmp"
"""Where pip unpacks: on the disk of the environment, so that packages are moved and not copied, and removed with it."""
_POLL_SECONDS = 0.1
"""How often the installation's output is looked at for its progress."""
# The size is only a help before the question whether to install: an index that does not answer must not delay it.
_SIZE_SECONDS = 10.0
_DRY_RUN = """\
import json, sys
from pip._internal.cli.main import main
from pip._internal.operations.prepare import RequirementPreparer
from pip._internal.resolution.resolvelib.resolver import Resolver

found = []

def described(each):
    if each.link.is_wheel:
        name, version = each.link.filename.split("-")[:2]
    else:
        name, version = each.metadata["name"], each.metadata["version"]
    return {"metadata": {"name": name, "version": version}, "download_info": {"url": each.link.url_without_fragment}}

def report(preparer, requirements, *words, **more):
    found.append([described(each) for each in requirements if each.link is not None])
    raise SystemExit  # pip cleans up, and returns a code of its own

if "prepare_linked_requirements_more" in Resolver.resolve.__code__.co_names:
    RequirementPreparer.prepare_linked_requirements_more = report
code = main()
if found:
    with open(sys.argv[sys.argv.index("--report") + 1], "w", encoding="utf-8") as file:
        json.dump({"install": found[0]}, file)
sys.exit(0 if found else code)
"""
"""pip, whose dry run ends once it is known what would be fetched.

For that, the metadata of a wheel is enough, which the index serves apart (PEP 658), or of which `fast-deps` reads the
last bytes of the wheel. pip 23 to 25 fetch all wheels even so (`Resolver.resolve` calls
`prepare_linked_requirements_more`), which is gigabytes before anybody was asked; pip 26 does not.
"""
_NEEDS = ("msgspec", "libcst", "PyYAML", "typing_extensions")
"""What ctrace's side in the child process imports."""
_QUIET = ("--no-input", "--disable-pip-version-check")
_CHECK = "import msgspec, libcst, yaml; assert tuple(map(int, msgspec.__version__.split('.')[:2])) >= (0, 19)"
_SUFFIX = "import sysconfig, sys; print(sysconfig.get_config_var('EXT_SUFFIX'), '%d.%d' % sys.version_info[:2])"


class Fetched(Struct, frozen=True):
    """A package that an upgrade would install."""

    name: str
    version: str
    url: str = ""
    bytes: int | None = None
    """The size of its wheel; None: the index does not say."""

    @property
    def pin(self) -> str:
        """The package as a requirement of this version."""
        return f"{self.name}=={self.version}"


class UpgradePlan(Struct, frozen=True):
    """What is fetched for an environment, and where to."""

    folder: Path
    packages: tuple[Fetched, ...]
    requirements: tuple[str, ...]

    @property
    def bytes(self) -> int | None:
        """The bytes of all wheels; None: not known of each."""
        sizes = [each.bytes for each in self.packages]
        if None in sizes:
            return None
        return sum(size or 0 for size in sizes)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Where the packages come from."""
        found = (urlsplit(each.url) for each in self.packages if each.url)
        return tuple(dict.fromkeys(each.hostname or "this machine" for each in found))


class InstallError(CtraceError):
    """pip or uv refused."""


class EnvironmentMaker:
    """Makes environments in a folder.

    Args:
        root: ctrace's folder, `.ctrace`.
        builds: Whether packages without a wheel may be built.
        say: Reports progress.
    """

    def __init__(self, root: Path, *, builds: bool = False, say: Callable[[str], None] = lambda _text: None) -> None:
        self._root = (root / _FOLDER).absolute()
        self._builds = builds
        self._say = say

    def made(self, requirements: Sequence[Requirement]) -> Interpreter | None:
        """Return the environment of an earlier call for the same requirements and packages; None: there is none."""
        folder = self._folder(requirements)
        if (folder / _READY).is_file():
            return _interpreter(folder)
        return None

    def plan(self, requirements: Sequence[Requirement]) -> UpgradePlan:
        """Find out what would be installed; this asks the index, and installs nothing.

        Raises:
            InstallError: there is no such version, the pins conflict, or the index does not answer.
        """
        texts = tuple(each.text for each in requirements)
        self._say(f"asking for {', '.join(texts)}")
        with scratch("upgrade") as folder:
            report = folder / "report.json"
            # With what depends on them, or the resolver could choose versions that break it.
            words = [*texts, *dependents({each.name for each in requirements})]
            installer = Installer(self._say, texts)
            output = installer.run(installer.dry_run(report, words, builds=self._builds))
            if report.exists():
                found = _reported(report)
            else:
                found = _listed(output)
        self._say("asking for sizes")
        # Each is a request that only waits.
        with ThreadPoolExecutor(8) as pool:
            sizes = list(pool.map(_size, [each.url for each in found]))
        packages = [Fetched(each.name, each.version, each.url, size) for each, size in zip(found, sizes, strict=True)]
        return UpgradePlan(self._folder(requirements), tuple(sorted(packages, key=lambda each: each.name)), texts)

    def make(self, plan: UpgradePlan) -> Interpreter:
        """Install what a plan says, and return the environment; remove it again if that fails.

        Raises:
            InstallError: pip or uv failed.
            RunError: the folder cannot be written, or the disk is full.
        """
        self._check_room(plan)
        self.remove_incomplete()
        with self._making(plan.folder):
            installer = Installer(self._say, plan.requirements)
            pins = [each.pin for each in plan.packages]
            # What was named by its address may be in no index, so it is fetched from there, and not by its pin.
            urls = [text for text in plan.requirements if "@" in text]
            named = {normalized(text.partition("@")[0].strip()) for text in urls}
            pins = [*urls, *(pin for pin in pins if normalized(pin.partition("==")[0]) not in named)]
            if pins:
                command = installer.install(plan.folder / _PACKAGES, pins, builds=self._builds)
                installer.run(command, temporary=plan.folder / _TEMPORARY)
            # Last: a folder without this file was left by an installation that was killed.
            write_json(plan.folder / _READY, {"requirements": plan.requirements, "created": time.time()})
        return _interpreter(plan.folder)

    def supported(self, python: Path, *, may_install: bool) -> Interpreter:
        """Return a Python with what ctrace's side in its processes needs, in a folder of its own if it lacks that.

        Raises:
            TargetError: it is no Python.
            SetupError: it lacks msgspec, and installing is not allowed.
            InstallError: installing failed.
        """
        path = _python_of(python)
        answer = _asked(path, _SUFFIX)
        if answer is None:
            raise TargetError(f"--python {python}: it does not start", "name the Python of an environment")
        suffix, version = answer.split()
        if tuple(map(int, version.split("."))) < (3, 11):
            raise TargetError(f"--python {python} is Python {version}", "name a Python from 3.11 on")
        # Its own copies first, which fit it in any case.
        if _asked(path, _CHECK) is not None:
            return Interpreter(path)
        # Extension modules are built for one Python and one platform, which this says.
        if suffix == sysconfig.get_config_var("EXT_SUFFIX"):
            return Interpreter(path, last=(str(self._linked()),))
        folder = self._root / f"support-{version}{suffix.removesuffix('.so')}"
        if not (folder / _READY).is_file():
            if not may_install:
                what = f"--python {python} needs msgspec and libcst for Python {version}, in a folder of ctrace's own"
                raise SetupError(what, "add --yes, and ctrace fetches them")
            with self._making(folder):
                installer = Installer(self._say, _NEEDS)
                command = installer.install(folder / _PACKAGES, _NEEDS, python=path, version=version)
                installer.run(command, temporary=folder / _TEMPORARY)
                write_json(folder / _READY, {"requirements": _NEEDS, "created": time.time()})
        return Interpreter(path, last=(str(folder / _PACKAGES),))

    def _linked(self) -> Path:
        """Return a folder with links to our own copies of what ctrace needs, for another environment of this Python."""
        folder = self._root / f"support-{sys.version_info[0]}.{sys.version_info[1]}-links" / _PACKAGES
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for each in _NEEDS:
                found = metadata.distribution(each)
                # Scripts lie beside the folder of packages, as `../../../bin/name`.
                tops = {file.parts[0] for file in found.files or () if len(file.parts) > 1 or file.suffix == ".py"}
                for top in sorted(tops - {"..", "__pycache__"}):
                    if not (folder / top).is_symlink():
                        (folder / top).symlink_to(str(found.locate_file(top)))
            write_json(folder.parent / _READY, {"requirements": _NEEDS, "created": time.time()})
        except OSError as error:
            raise RunError(f"{folder} cannot be written: {reason(error)}", remedy(error)) from None
        return folder

    @contextmanager
    def _making(self, folder: Path) -> Iterator[None]:
        """Make a folder, keep others from removing it, and remove it if the block fails.

        Raises:
            RunError: it cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            ignore = self._root.parent / ".gitignore"
            if not ignore.exists():
                write_text(ignore, "*\n")
        except OSError as error:
            raise RunError(f"{folder} cannot be written: {reason(error)}", remedy(error)) from None
        try:
            with in_use(folder):
                yield
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _check_room(self, plan: UpgradePlan) -> None:
        """Refuse what certainly does not fit on the disk.

        Raises:
            RunError: the wheels have more bytes than are free.
        """
        # The folder need not be there yet; its disk is that of what is.
        at = next(each for each in (self._root, *self._root.parents) if each.exists())
        free = shutil.disk_usage(at).free
        if plan.bytes is not None and plan.bytes > free:
            what = f"{at} has {free / 1e6:,.1f} MB free, and {plan.bytes / 1e6:,.1f} MB are fetched"
            raise RunError(what, "free some room, or name another folder: CTRACE_DIR=/other/.ctrace")

    def _folder(self, requirements: Sequence[Requirement]) -> Path:
        """Return the folder for requirements on top of what is installed today."""
        texts = [each.text for each in requirements]
        # What would not change is read where it is, so another installed version makes another environment.
        today = sorted(f"{each.metadata['Name']}=={each.version}" for each in metadata.distributions())
        content = json.dumps([sorted(texts), sys.version, sys.prefix, today, self._builds])
        name = re.sub(r"[^\w.=-]+", "-", "-".join(texts))[:60]
        return self._root / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:10]}"

    def environments(self) -> list[MadeEnvironment]:
        """List all environments, also incomplete ones, the oldest first."""
        found = [_described(each) for each in self._folders()]
        return sorted(found, key=lambda each: (each.created or 0.0, each.name))

    def clean(self) -> tuple[list[MadeEnvironment], list[MadeEnvironment]]:
        """Remove all environments that no other process uses; return the removed ones, and those in use."""
        removed, kept = list[MadeEnvironment](), list[MadeEnvironment]()
        for folder in self._folders():
            found = _described(folder)
            (removed if _remove(folder) else kept).append(found)
        with suppress(OSError):
            self._root.rmdir()
        return removed, kept

    def remove_incomplete(self) -> None:
        """Remove what killed installations left."""
        for folder in self._folders():
            if not (folder / _READY).is_file():
                _remove(folder)

    def _folders(self) -> list[Path]:
        try:
            return sorted(each for each in self._root.iterdir() if each.is_dir() and not each.is_symlink())
        except OSError:
            return []


def _remove(folder: Path) -> bool:
    with unused(folder) as is_free:
        if is_free:
            shutil.rmtree(folder, ignore_errors=True)
        return is_free


def _described(folder: Path) -> MadeEnvironment:
    size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                # Links into other environments take no room here.
                size += os.lstat(os.path.join(path, name)).st_size  # noqa: PTH118
    try:
        data: dict[str, Any] = read_object(folder / _READY)
        created, texts = float(data["created"]), tuple(map(str, data["requirements"]))
    except (OSError, ValueError, KeyError, TypeError):
        created, texts = None, ()
    return MadeEnvironment(folder.name, size, created, texts)


def _interpreter(folder: Path) -> Interpreter:
    return Interpreter(sys.executable, first=(str(folder / _PACKAGES),))


def _python_of(path: Path) -> str:
    """Return the Python that a path names; a folder is an environment.

    Raises:
        TargetError: there is none.
    """
    inside = path / "bin" / "python"
    if path.is_dir() and inside.exists():
        found = inside
    else:
        found = path
    if not found.is_file():
        raise TargetError(f"--python {path}: there is no Python", "name one, such as .venv/bin/python")
    return os.path.abspath(found)  # noqa: PTH100 - a resolved link would leave the environment


def _asked(python: str, code: str) -> str | None:
    """Return what another Python prints; None: it fails."""
    with scratch("upgrade") as folder, (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        child = ChildProcess(withheld=("PYTHONPATH", "PYTHONHOME"))
        try:
            with child.running([python, "-c", code], os.environ, out, err):
                while (status := child.status()) is None:
                    time.sleep(0.02)
        except SetupError:
            return None
        if status == 0:
            return (folder / "out").read_text("utf-8", "replace").strip()
        return None


def dependents(names: set[str]) -> list[str]:
    """Return pins of the installed packages that require some packages: an upgrade must not break them unnoticed."""
    pins = []
    for each in metadata.distributions():
        name = normalized(str(each.metadata["Name"] or ""))
        # Requirements of extras hold only if somebody asked for the extra.
        needs = {normalized(_name_of(text)) for text in each.requires or () if "extra ==" not in text}
        if name and name not in {*names, "ctrace"} and not names.isdisjoint(needs) and not _is_local(each):
            pins.append(f"{name}=={each.version}")
    return sorted(pins)


def _name_of(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    if not match:
        return ""
    return match[0]


def _is_local(found: metadata.Distribution) -> bool:
    """Whether a package was installed from a folder or an address, and no index has it."""
    return found.read_text("direct_url.json") is not None


def _reported(report: Path) -> list[Fetched]:
    """Read the report of pip's dry run."""
    try:
        data: dict[str, Any] = json.loads(report.read_text("utf-8"))
        return [
            Fetched(normalized(each["metadata"]["name"]), each["metadata"]["version"], each["download_info"]["url"])
            for each in data["install"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InstallError(f"pip's report cannot be read: {error}", "update pip: it needs 22.2 or newer") from None


def _listed(output: str) -> list[Fetched]:
    """Read what uv's dry run prints: ` + torch==2.15.0`."""
    # `+` installs, `~` installs again; `-` is what goes.
    pairs = re.findall(r"^ [+~] ([\w.-]+)==(\S+)", output, re.MULTILINE)
    return [Fetched(normalized(name), version) for name, version in pairs]


def _size(url: str) -> int | None:
    """Return the size of a file; None: not known."""
    parts = urlsplit(url)
    try:
        if parts.scheme == "file":
            return Path(unquote(parts.path)).stat().st_size
        if parts.scheme not in ("http", "https"):
            return None
        certificates = os.environ.get("PIP_CERT") or os.environ.get("REQUESTS_CA_BUNDLE") or None
        context = ssl.create_default_context(cafile=certificates)
        asked = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(asked, timeout=_SIZE_SECONDS, context=context) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, ValueError, TypeError, urllib.error.URLError):
        return None


class Installer:
    """pip or uv, run as a process that ends with this one.

    Args:
        say: Reports progress.
        requirements: What the user asked for, for messages.
    """

    def __init__(self, say: Callable[[str], None], requirements: Iterable[str]) -> None:
        self._say = say
        self._asked = ", ".join(requirements)
        self._step = f"asking for {self._asked}"
        uv = shutil.which("uv")
        # An environment is upgraded by what made it; one without pip, by uv in any case.
        self._is_uv = uv is not None and (_is_made_by_uv() or not _has_pip())
        if self._is_uv:
            self._command = [str(uv), "pip", "install"]
        elif _has_pip():
            self._command = [sys.executable, "-m", "pip", "install", *_QUIET]
        else:
            raise SetupError("neither pip nor uv is here", "python -m ensurepip installs pip")

    def dry_run(self, report: Path, words: Sequence[str], *, builds: bool) -> list[str]:
        """Return the command that finds out what an upgrade would install."""
        if self._is_uv:
            return [*self._command, "--dry-run", "--python", sys.executable, *self._wheels(builds), *words]
        # -vv says of each link why it is skipped, and whether the index answers; without it, all look the same.
        pip = [sys.executable, "-c", _DRY_RUN, "install", *_QUIET]
        return [
            *pip,
            "--use-feature=fast-deps",
            "-vv",
            "--dry-run",
            "--report",
            str(report),
            *self._wheels(builds),
            *words,
        ]

    def install(
        self, folder: Path, words: Sequence[str], *, builds: bool = False, python: str = "", version: str = ""
    ) -> list[str]:
        """Return the command that installs packages, without what they require, into a folder."""
        more = ["--no-deps", "--target", str(folder), *self._wheels(builds)]
        if self._is_uv:
            return [*self._command, *more, "--python", python or sys.executable, *words]
        other = []
        if version:
            other = ["--python-version", version, "--implementation", "cp"]
        return [*self._command, "--no-warn-conflicts", *more, *other, *words]

    def _wheels(self, builds: bool) -> list[str]:
        if builds:
            return []
        return ["--only-binary", ":all:"]

    def run(self, command: Sequence[str], *, temporary: Path | None = None) -> str:
        """Run a command, with a folder for its temporary files, and return its output.

        Raises:
            InstallError: it fails.
        """
        environment = dict(os.environ)
        config = Path(sys.prefix) / "pip.conf"
        if not self._is_uv and config.is_file():
            environment.setdefault("PIP_CONFIG_FILE", str(config))
        # A bar is written again and again, and the output is a file.
        environment["PIP_PROGRESS_BAR"] = "off"
        if temporary is not None:
            temporary.mkdir(exist_ok=True)
            environment["TMPDIR"] = str(temporary)
        child = ChildProcess(withheld=("PYTHONPATH", "PYTHONHOME"))
        with scratch("upgrade") as folder:
            file = folder / "output"
            with file.open("wb") as out, child.running(list(command), environment, out, out):
                seen = 0
                while (status := child.status()) is None:
                    time.sleep(_POLL_SECONDS)
                    seen = self._show(file, seen)
            text = file.read_text("utf-8", "replace")
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        if status:
            raise _refused(text, status, self._asked)
        return text

    def _show(self, file: Path, seen: int) -> int:
        """Report the last line that says what is fetched."""
        with file.open("rb") as opened:
            opened.seek(seen)
            data = opened.read()
        lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
        steps = [line for line in lines if line.startswith(("Collecting", "Downloading", "Using cached", "Installing"))]
        if steps:
            self._step = shown_step(steps[-1])
        self._say(self._step)
        return seen + len(data)


def shown_step(line: str) -> str:
    """Shorten a line of pip or uv to the package's name, version and size: a wheel's file name fills the whole line."""
    text = line.partition(" (from")[0]
    match = _WHEEL.fullmatch(text)
    if match is None:
        return text
    return f"{match['verb']} {match['name']} {match['version']}{match['size'] or ''}"


_WHEEL = re.compile(
    r"(?P<verb>\w+) (?:\S*/)?(?P<name>[\w.]+)-(?P<version>[\w.!+]+)-\S+\.whl(?:\.metadata)?"
    r"(?P<size> \([\d.]+ [kMG]?B\))?"
)


def _has_pip() -> bool:
    # Asked of the path alone: to look pip up through every finder turns off that of setuptools (_distutils_hack) for
    # this process, after which the first `import setuptools`, as Inductor's C++ builder does it, is an AssertionError.
    return PathFinder.find_spec("pip") is not None


def _is_made_by_uv() -> bool:
    try:
        return re.search(r"^uv\s*=", (Path(sys.prefix) / "pyvenv.cfg").read_text("utf-8"), re.MULTILINE) is not None
    except OSError:
        return False


_NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|Temporary failure in name resolution|Connection refused"
    r"|Network is unreachable|connection error"
    r"|ConnectTimeout|ReadTimeout|Failed to fetch|error sending request|dns error|ProxyError"
)
_FULL = re.compile(r"No space left on device|Disk quota exceeded|\[Errno 28\]|os error 28")
_VERSIONS = re.compile(r"satisfies the requirement (?P<asked>\S+)[^(]*\(from versions: (?P<versions>[^)]*)\)")
_NO_MATCH = re.compile(r"No matching distribution found for (?P<asked>\S+)")
_UV_NOT_THERE = re.compile(
    r"there is no version of \S+|\S+ was not found in the package registry|\S+ has no wheels with a matching[^,]*"
)
_OTHER_PYTHON = re.compile(r"that require a different python version: (?P<versions>.+)")


def _refused(text: str, status: int, asked: str) -> InstallError:
    """Say in two lines why pip or uv failed."""
    if status < 0:
        return InstallError(f"the installation of {asked} was killed by signal {-status}", "run the command again")
    if _FULL.search(text):
        todo = "free some room, or name another folder: CTRACE_DIR=/other/.ctrace"
        return InstallError(f"the disk is full: {asked} was removed again", todo)
    match = _VERSIONS.search(text)
    known = [each for each in (match["versions"] if match else "").split(", ") if each not in ("", "none")]
    if not known and _NO_NETWORK.search(text):
        what = f"{asked} cannot be fetched: the index does not answer"
        return InstallError(what, "check the network, or the index that pip is set to")
    if match is not None and _NO_NETWORK.search(text):
        what = f"{match['asked']} is not in the indexes that answer, and one does not answer"
        return InstallError(
            what, f"check the network, or the indexes that pip is set to; found: {', '.join(known[-8:])}"
        )
    if match or (match := _NO_MATCH.search(text)):
        return _not_there(match["asked"], known, text)
    if match := _UV_NOT_THERE.search(" ".join(text.split())):
        return InstallError(f"{asked} is not there: {match[0]}", "check the name and the version")
    if "ResolutionImpossible" in text or "No solution found" in text:
        conflict = _conflict(text)
        todo = "name versions that fit together"
        if "(constraint)" in conflict:
            todo = "a constraints file that pip is set to says so; pip config list names it"
        return InstallError(f"{asked} does not fit what else is required: {conflict}", todo)
    errors = [line for line in text.splitlines() if line.startswith(("ERROR", "error", "  ×"))]
    last = (errors or [line for line in text.splitlines() if line.strip()] or [f"exit code {status}"])[-1]
    return InstallError(f"{asked} cannot be installed: {last.removeprefix('ERROR: ')}", "see what pip says about it")


def _not_there(asked: str, known: list[str], text: str) -> InstallError:
    """Say whether a version has no wheel, only one for another Python, or does not exist."""
    python = ".".join(map(str, sys.version_info[:2]))
    todo = "check the name of the package"
    if known:
        todo = f"it has: {', '.join(known[-8:])}"
    name, _, version = asked.partition("==")
    file = re.compile(rf"{re.sub(r'[-_.]+', '[-_.]', name)}-{re.escape(version)}[-.]", re.IGNORECASE)
    # pip says so only with -vv, which the dry run has.
    skipped = [line for line in text.splitlines() if "Skipping link" in line and version and file.search(line)]
    if any("No sources permitted" in line for line in skipped):
        what = f"{asked} has no wheel for Python {python} on this machine, only source"
        return InstallError(what, "--allow-build builds it, which runs its code")
    if skipped or _OTHER_PYTHON.search(text):
        return InstallError(f"{asked} has no wheel for Python {python} on this machine", todo)
    return InstallError(f"the index has no {asked}", todo)


def _conflict(text: str) -> str:
    """Return the requirements that conflict, in one line."""
    _, found, rest = text.partition("The conflict is caused by:")
    if not found:
        lines = [line.strip(" │╰─▶").removeprefix("cause: ") for line in text.splitlines() if "because" in line.lower()]
        return " ".join(lines)[:300] or "see pip's output"
    lines = []
    for line in rest.splitlines()[1:]:
        if not line.startswith("    "):
            break
        lines.append(line.strip())
    return "; ".join(dict.fromkeys(lines))[:300]
