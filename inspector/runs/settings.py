"""Read a project's settings: the table `[tool.ctrace]` of the nearest pyproject.toml."""

import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct

from ctrace.inspector.errors import SettingsError, did_you_mean
from ctrace.inspector.files.typed_json import read_text

_KNOWN = ("owned", "gpus")


class Settings(Struct, frozen=True):
    """The settings of a project."""

    owned: tuple[str, ...] = ()
    """Absolute paths of folders and files whose code counts as the user's, even if installed."""
    gpus: tuple[str, ...] = ()
    """Absolute paths of files with GPUs for `--target`."""


def settings_at(folder: Path) -> Settings:
    """Read the settings for a folder, from the pyproject.toml in it or the nearest one above.

    `owned` names folders or files, relative to the pyproject.toml, or importable packages; `gpus` names YAML files.

    Raises:
        SettingsError: the file cannot be read, has an unknown key, or names something that does not exist.
    """
    file = next(
        (each / "pyproject.toml" for each in (folder, *folder.parents) if (each / "pyproject.toml").is_file()), None
    )
    if file is None:
        return Settings()
    table = _table(file)
    for key in table:
        if key not in _KNOWN:
            todo = did_you_mean(key, _KNOWN, f"there are: {', '.join(_KNOWN)}")
            raise SettingsError(f"{file}: unknown key {key} in [tool.ctrace]", todo)
    places = (place for each in _texts(table, "owned", "mylib", file) for place in _owned(each, file))
    gpus = (_gpus(each, file) for each in _texts(table, "gpus", "gpus.yaml", file))
    return Settings(tuple(places), tuple(gpus))


def owned_places(name: str, folder: Path) -> list[str]:
    """Return the paths of an `owned` entry, as spelled and with links resolved; empty if the entry names nothing.

    The entry is a folder or file, relative to `folder`, or an importable package.
    """
    path = (folder / name).absolute()
    if _exists(path):
        found = [str(path)]
    else:
        found = _package(name)
    # Both spellings, because torch reports a file as it was imported, and Python resolves some paths.
    return list(dict.fromkeys(spelling for each in found for spelling in (each, str(Path(each).resolve()))))


def _texts(table: dict[str, Any], key: str, example: str, file: Path) -> list[str]:
    texts = table.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise SettingsError(
            f"{file}: [tool.ctrace] {key} is not a list of strings", f'write it as {key} = ["{example}"]'
        )
    return texts


def _gpus(name: str, file: Path) -> str:
    path = (file.parent / name).absolute()
    if not (_exists(path) and path.is_file()):
        raise SettingsError(
            f"{file}: [tool.ctrace] gpus names {name!r}, which does not exist",
            "name a YAML file beside the pyproject.toml",
        )
    return str(path)


def _table(file: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(read_text(file))
    except RecursionError:
        raise SettingsError(f"{file}: values are nested too deeply", "correct the file") from None
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{file} cannot be read: {error}", "correct the file; ctrace reads [tool.ctrace] from it"
        ) from None
    tool = data.get("tool", {})
    table = {}
    if isinstance(tool, dict):
        table = tool.get("ctrace", {})
    if not isinstance(table, dict):
        raise SettingsError(f"{file}: tool.ctrace is not a table", "write it as [tool.ctrace]")
    return table


def _owned(name: str, file: Path) -> list[str]:
    found = owned_places(name, file.parent)
    if not found:
        what = f"{file}: [tool.ctrace] owned names {name!r}, which is neither a path nor an installed package"
        raise SettingsError(what, "name a folder or file beside the pyproject.toml, or a package that can be imported")
    return found


def _package(name: str) -> list[str]:
    """Find a package's folders without importing it; a dotted name stands for a folder below the package."""
    first, *rest = name.split(".")
    try:
        spec = find_spec(first)
    except (ValueError, ImportError):
        return []
    if spec is None:
        return []
    if not spec.submodule_search_locations:
        if spec.origin and not rest:
            return [spec.origin]
        return []
    folders = [Path(folder, *rest) for folder in spec.submodule_search_locations]
    # `pkg.part` is a folder below the package, or a file.
    candidates = [*folders, *(folder.with_suffix(".py") for folder in folders if rest)]
    return [str(each) for each in candidates if _exists(each)]


def _exists(path: Path) -> bool:
    """Whether a file or folder exists; False for a name that is too long."""
    try:
        return path.exists()
    except OSError:
        return False
