"""Dump a run: a folder for each graph part with its kernels, wrapper and graph, and an index.

File and folder names are safe on every file system.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.errors import DumpError
from ctrace.inspector.facts.graphs import GraphStage
from ctrace.inspector.facts.kernels import Kernel, OutputCode
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.view import compiled
from ctrace.inspector.findings.kernels.built_view import Resources
from ctrace.inspector.version import __version__
from ctrace.reports.dump.codefiles import built_of, code_files, instructions, notes
from ctrace.reports.dump.dumped import Dumped, DumpedKernel, DumpedPart
from ctrace.reports.dump.folder import INDEX, Folder
from ctrace.reports.dump.graphfile import graph_file
from ctrace.reports.dump.groups import Group, groups
from ctrace.reports.dump.kernelfile import kernel_file
from ctrace.reports.dump.launches import Wrapper, follow
from ctrace.reports.dump.module import Module, read
from ctrace.reports.dump.pieces import About, CannotDumpError
from ctrace.reports.dump.readme import readme
from ctrace.reports.dump.wrapperfile import Parts, wrapper_file
from ctrace.reports.json.built import resources_data
from ctrace.reports.json.target import emitted, target_data

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 80
"""The most characters of a stem; names of fused kernels have up to about 200."""
_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"com{digit}" for digit in range(10)), *(f"lpt{digit}" for digit in range(10)))
)
"""Names that Windows reserves for devices, with any extension."""


def safe(text: str) -> str:
    """Make a file name's stem from any text: at most 80 ASCII letters, digits, `_` and `-`, and no reserved name.

    Of a long name, keep the end, because the number there distinguishes the kernels of a graph.
    """
    stem = _UNSAFE.sub("_", text).strip("_-") or "unnamed"
    if len(stem) > _LONGEST:
        tail = stem[-20:].lstrip("_-")
        stem = f"{stem[: _LONGEST - len(tail) - 1].rstrip('_-')}_{tail}"
    return f"_{stem}" if stem.lower() in _RESERVED else stem


class Names:
    """Makes unique names; names that differ only in case count as equal, as on some file systems."""

    def __init__(self, *taken: str) -> None:
        self._taken = {name.lower() for name in taken}

    def new(self, text: str) -> str:
        """Return a safe stem that is not in use yet."""
        stem, number = safe(text), 1
        name = stem
        while name.lower() in self._taken:
            number += 1
            name = f"{stem}-{number}"
        self._taken.add(name.lower())
        return name


_README = "README.md"


def dump(session: Session, folder: Path) -> Dumped:
    """Write a run's kernels, wrappers and graphs into a folder, which must be new, empty, or from an earlier dump.

    Raises:
        DumpError: the run has no output code, or the folder has other files or cannot be written.
    """
    if not session.code:
        raise DumpError("this run has no code from Inductor", "run it again with this ctrace, or see: ctrace explain")
    target = Folder(folder)
    target.begin()
    names, parts, files = Names("README", "index"), [], []
    for code in session.code:
        writer = _Part(session, code, target, names.new(f"{code.graph}-{code.stage}".replace("/", "_")))
        parts.append(writer.write())
        files += writer.files
    dumped = Dumped(folder, tuple(files), tuple(parts))
    files.append(target.write(_README, readme(session, dumped)))
    files.append(target.finish(_index(session, dumped)))
    return replace(dumped, files=tuple(files))


class _Part:
    """Writes the files of one graph part."""

    def __init__(self, session: Session, code: OutputCode, target: Folder, folder: str) -> None:
        self._session = session
        self._code = code
        self._target = target
        self._folder = folder
        self._names = Names("wrapper", "graph")
        self._kernels = [each for each in session.kernels if (each.graph, each.stage) == (code.graph, code.stage)]
        self._built = built_of(session, code.graph, code.stage)
        self._last = instructions(session, code.graph)
        self._title = f"graph {code.graph}, {code.stage}"
        self.files: list[Path] = []

    def write(self) -> DumpedPart:
        code = self._code
        module = read(code.text)
        if module is None:
            return DumpedPart(
                code.graph, str(code.stage), self._folder, why_not="its code is not a Python module with a `call`"
            )
        wrapper = follow(module, self._dtypes())
        kernels, by_name = self._write_kernels(module, wrapper)
        why_not = self._write_graph()
        title = ", ".join((f"{self._title}: the wrapper", *notes(self._session, (), generated=True)))
        self._write("wrapper.py", wrapper_file(Parts(title, code.text, module, wrapper, by_name, why_not)))
        return DumpedPart(
            code.graph,
            str(code.stage),
            self._folder,
            tuple(kernels),
            wrapper=True,
            compared=why_not,
            no_instructions=self._last.why_not,
        )

    def _write(self, name: str, text: str) -> str:
        file = f"{self._folder}/{name}"
        self.files.append(self._target.write(file, text))
        return file

    def _write_graph(self) -> str:
        """Write the graph; return why it cannot run, or an empty text."""
        printed = _post_grad(self._session, self._code)
        if not printed:
            return "the graph after Inductor's last passes is not in the log"
        self._write("graph.txt", printed + "\n")
        program = graph_file(printed, f"{self._title}: the graph after Inductor's last passes")
        if program.text:
            self._write("graph.py", program.text)
        return program.why_not

    def _write_kernels(self, module: Module, wrapper: Wrapper) -> tuple[list[DumpedKernel], dict[str, str]]:
        dumped, by_name = list[DumpedKernel](), dict[str, str]()
        for group in groups(wrapper, self._kernels):
            site, about = group.site, self._about(group)
            described = self._described(module, group, about)
            try:
                if site.name in module.others:
                    raise CannotDumpError("ctrace cannot dump kernels of this kind")
                text = kernel_file(site, module, wrapper.below, about)
            except CannotDumpError as error:
                code = self._write_code(self._names.new(described.name), described.built) if described.built else ()
                dumped.append(replace(described, why_not=str(error), code=code))
                continue
            stem = self._names.new(described.name)
            file, described = f"{stem}.py", replace(described, code=self._write_code(stem, described.built))
            if site.kernel is not None:
                by_name[site.name] = file
            dumped.append(replace(described, file=self._write(file, text)))
        return dumped, by_name

    def _write_code(self, stem: str, found: tuple[Resources, ...]) -> tuple[str, ...]:
        return tuple(self._write(each.name, each.text) for each in code_files(self._session, stem, found, self._last))

    def _described(self, module: Module, group: Group, about: About) -> DumpedKernel:
        site = group.site
        return DumpedKernel(
            name=_short(site.name),
            language=site.kernel.language if site.kernel else module.others.get(site.name, "external"),
            file="",
            ops=about.ops,
            lines=about.lines,
            launches=group.launches,
            bytes=about.bytes,
            flops=about.flops,
            built=self._of(group.kernel),
        )

    def _about(self, group: Group) -> About:
        kernel, launch = group.kernel, group.launch
        about = About(f"{_short(group.site.name)} of {self._title}", launches=group.launches, notes=self._notes(kernel))
        if kernel is not None:
            about = replace(about, ops=kernel.ops, lines=kernel.lines)
            if kernel.user:
                about = replace(about, notes=("written by the user", *about.notes))
        if launch is None:
            return about
        if launch.read is not None and launch.written is not None:
            about = replace(about, bytes=launch.read + launch.written)
        ops, lines = launch.ops or about.ops, launch.lines or about.lines
        return replace(about, ops=ops, lines=lines, flops=launch.flops)

    def _notes(self, kernel: Kernel | None) -> tuple[str, ...]:
        return notes(self._session, self._of(kernel), generated=kernel is None or kernel.language != "cpp")

    def _of(self, kernel: Kernel | None) -> tuple[Resources, ...]:
        return self._built.get(kernel.name, ()) if kernel else ()

    def _dtypes(self) -> dict[str, str]:
        """Return the dtypes of buffers in the records of fusion and launches."""
        fusions = [
            each for each in self._session.fusions if (each.graph, each.stage) == (self._code.graph, self._code.stage)
        ]
        dtypes = {buffer.name: buffer.dtype for fusion in fusions for buffer in fusion.buffers if buffer.dtype}
        for kernel in self._kernels:
            for launch in kernel.launches:
                dtypes.update({each.name: each.dtype for each in launch.arguments or () if each.tensor and each.dtype})
        return {name: f"torch.{dtype.removeprefix('torch.')}" for name, dtype in dtypes.items() if dtype.isidentifier()}


def _short(name: str) -> str:
    return name.removeprefix("extern_kernels.").removeprefix("torch.ops.")


def _post_grad(session: Session, code: OutputCode) -> str:
    for each in compiled(session):
        if each.id == code.graph:
            found = [
                staged.printed.text
                for staged in each.stages
                if staged.stage is GraphStage.POST_GRAD and staged.part in (code.stage, None)
            ]
            return found[-1] if found else ""
    return ""


def _index(session: Session, dumped: Dumped) -> Mapping[str, Any]:
    return {
        "ctrace": __version__,
        "torch": session.environment.torch,
        "target_gpu": target_data(session),
        "parts": [
            {
                "graph": part.graph,
                "stage": part.stage,
                "folder": part.folder,
                "wrapper": f"{part.folder}/wrapper.py" if part.wrapper else None,
                "not_compared": part.compared or None,
                "left_out": part.why_not or None,
                "kernels": [_kernel(each) for each in part.kernels],
            }
            for part in dumped.parts
        ],
        "index": INDEX,
    }


def _kernel(each: DumpedKernel) -> dict[str, Any]:
    data = {
        "name": each.name,
        "language": each.language,
        "file": each.file or None,
        "left_out": each.why_not or None,
        "ops": list(each.ops),
        "lines": list(each.lines),
        "launches": each.launches,
        "bytes": each.bytes,
        "flops": each.flops,
        "built": [resources_data(found) for found in each.built],
        "code": list(each.code),
    }
    return emitted(data, "bytes", "flops")
