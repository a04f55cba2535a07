"""Keep what a rank saves out of the user's files: its values are those of a rank without peers.

A program that runs as a rank of a virtual cluster would otherwise write over the checkpoint of a real job. So
`torch.save` writes into a folder that lasts as long as the run, and `torch.load` reads from there what the program has
saved under a name. Each place is named in the report.

A distributed checkpoint (torch.distributed.checkpoint) is planned by all ranks together. Without them nothing is
written, and nothing is read: what the program would load into keeps its values.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.features.cluster.child.lone_rank import user_place

_PLANNED = ("save", "async_save", "load")
"""Functions of torch.distributed.checkpoint that all ranks call together (2.11 to 2.13)."""


@contextmanager
def kept_checkpoints(recorder: Recorder, when: When) -> Iterator[None]:
    """Redirect `torch.save` and `torch.load` (torch/serialization.py, 2.11 to 2.13), and moves of what was saved."""
    with ExitStack() as patches:
        kept = _Kept(recorder)
        patches.callback(kept.remove)

        def install(torch: Any) -> None:
            # Both modules hold the functions, and programs and torch itself take them from either.
            for module in (torch, torch.serialization):
                patches.enter_context(patched(module, "save", kept.saving(module.save)))
                patches.enter_context(patched(module, "load", kept.loading(module.load)))
            # A program often writes a file beside the old one, and moves it over that once it is complete.
            for name in ("rename", "replace"):
                patches.enter_context(patched(os, name, kept.moving(getattr(os, name))))

        def install_distributed(package: Any) -> None:
            for module in (package, package.state_dict_saver, package.state_dict_loader):
                for name in _PLANNED:
                    if hasattr(module, name):
                        patches.enter_context(patched(module, name, kept.planned(getattr(module, name))))

        when("torch", install)
        when("torch.distributed.checkpoint", install_distributed)
        yield


class _Kept:
    """The files that a rank has saved."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._folder = ""
        self._files: dict[str, str] = {}
        self._places: set[str] = set()

    def remove(self) -> None:
        """Remove them."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def saving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return `torch.save` that writes to a file of the run."""

        @wraps(original)
        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            # A file object is open already, and its owner decides where it writes.
            if not isinstance(f, str | os.PathLike):
                return original(obj, f, *args, **kwargs)
            self._tell(
                f"saves {Path(os.fspath(f)).name} (torch.save): --world writes no such file, because the values are"
                " those of a rank without its peers"
            )
            return original(obj, self._file(f), *args, **kwargs)

        return save

    def loading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return `torch.load` that finds what was saved."""

        @wraps(original)
        def load(f: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(f, str | os.PathLike):
                f = self._files.get(_name(f), f)
            return original(f, *args, **kwargs)

        return load

    def moving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of `os` that gives a saved file another name, as programs do once it is complete."""

        @wraps(original)
        def move(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(src, str | os.PathLike) and isinstance(dst, str | os.PathLike) and _name(src) in self._files:
                self._files[_name(dst)] = self._files.pop(_name(src))
                return None
            return original(src, dst, *args, **kwargs)

        return move

    def planned(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of torch.distributed.checkpoint that leaves everything as it is."""
        name = original.__name__
        does = "reads" if name == "load" else "writes"

        @wraps(original)
        def leave(*_args: Any, **_kwargs: Any) -> Any:
            what = (
                f"{does} a checkpoint of all ranks (torch.distributed.checkpoint.{name}): --world {does} nothing there"
            )
            self._tell(what if name == "load" else f"{what}, and lists none of its collectives")
            if name != "async_save":
                return None
            # The program waits for a future, and there is nothing to wait for.
            done: Future[None] = Future()
            done.set_result(None)
            return done

        return leave

    def _file(self, path: Any) -> str:
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="ctrace-saved-")
        # Numbers as names: two paths of the program may end in the same name.
        return self._files.setdefault(_name(path), str(Path(self._folder) / str(len(self._files))))

    def _tell(self, what: str) -> None:
        place = user_place()
        if place not in self._places:
            self._places.add(place)
            shown = place.removeprefix(f"{Path.cwd()}{os.sep}")  # as the program was named, unless it has moved since
            self._recorder.problem(f"{shown} {what}")


def _name(path: Any) -> str:
    return os.path.abspath(os.fsdecode(os.fspath(path)))  # noqa: PTH100 - without links: the file may not exist
