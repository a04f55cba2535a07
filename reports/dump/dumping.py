"""Dump a run: a folder for each graph part with its kernels, wrapper and graph, and an index with a README.

- `graph.py` is a function that runs the graph behind the part's code in eager, op by op.
- The wrapper of a graph part has `call`, which uses the kernels in their files, and a comparison with eager.
- Each kernel has a file: its source, a run with made-up inputs, and a benchmark. Launches of the same kernel share one
  file; compiled code has one file per stage, and its resources are described.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.errors import DumpError, TargetError
from ctrace.inspector.facts.built import IR_STAGES
from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.kernel_facts import Kernel, Launch, OutputCode, Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.graph_view import compiled
from ctrace.inspector.findings.kernels.built_view import Resources, codes, resources, stages_of, text_of
from ctrace.inspector.findings.target_gpu_view import called, target_device, target_of, target_sentence
from ctrace.inspector.version import __version__
from ctrace.reports import format as fmt
from ctrace.reports.dump.dump_files import About, CannotDumpError, WrapperParts, entry, kernel_file, wrapper_file
from ctrace.reports.dump.dump_folder import INDEX, FileNames, Folder
from ctrace.reports.dump.dumped import Dumped, DumpedKernel, DumpedPart
from ctrace.reports.dump.graph_program import graph_file
from ctrace.reports.dump.launch_code import LaunchSite, Value, Wrapper, WrapperTensor, follow
from ctrace.reports.dump.module import OutputModule, read
from ctrace.reports.dump.templates import rendered
from ctrace.reports.json.printer import plain
from ctrace.reports.wording.kernels_wording import COMMENTS, configuration_text, resources_text


class LaunchGroup(Struct, frozen=True):
    """All launches of one kernel, or all calls of one library function with arguments of the same form."""

    site: LaunchSite
    """The first launch."""
    kernel: Kernel | None = None
    """The kernel's record; None if the run has no kernel of that name."""
    launch: Launch | None = None
    launches: int = 1


def groups(wrapper: Wrapper, kernels: Iterable[Kernel]) -> tuple[LaunchGroup, ...]:
    """Group the launches that share one file, in the order of their first launch."""
    by_name = {kernel.name: kernel for kernel in kernels}
    seen: dict[str, int] = {}
    found: dict[tuple[str, str], LaunchGroup] = {}
    for site in wrapper.sites:
        kernel, at = by_name.get(site.name), seen.get(site.name, 0)
        seen[site.name] = at + 1
        form = ""
        if site.kernel is None:
            form = _form(site, wrapper.below)
        key = site.name, form
        if key in found:
            found[key] = replace(found[key], launches=found[key].launches + 1)
            continue
        launch = None
        if kernel and at < len(kernel.launches):
            launch = kernel.launches[at]  # the wrapper and the log have a kernel's launches in the same order
        found[key] = LaunchGroup(site, kernel, launch)
    return tuple(found.values())


def _form(site: LaunchSite, below: Mapping[str, int]) -> str:
    """Write a call with numbers instead of names, so that calls of the same form compare equal."""
    order = {name: f"_{at}" for at, name in enumerate(site.arguments)}
    text = ast.parse(ast.unparse(site.call), mode="eval")
    for node in ast.walk(text):
        if isinstance(node, ast.Name):
            node.id = order.get(node.id, node.id)
    return f"{ast.unparse(text)} {[_nameless(value, below) for value in site.arguments.values()]}"


def _nameless(value: Value, below: Mapping[str, int]) -> str:
    if not isinstance(value, WrapperTensor):
        return repr(value)
    limits = {}
    if value.storage in below:
        limits[""] = below[value.storage]
    return entry(replace(value, storage=""), limits)


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
    names, parts, files = FileNames("README", "index"), [], []
    for each in session.code:
        writer = _Part(session, each, target, names.new(f"{each.graph}-{each.stage}".replace("/", "_")))
        parts.append(writer.write())
        files += writer.files
    dumped = Dumped(
        run=session.run,
        target_gpu=target_device(session),
        target_sentence=target_sentence(session),
        folder=folder,
        files=tuple(files),
        parts=tuple(parts),
    )
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
        self._names = FileNames("wrapper", "graph")
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
        self._write("wrapper.py", wrapper_file(WrapperParts(title, code.text, module, wrapper, by_name, why_not)))
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

    def _write_kernels(self, module: OutputModule, wrapper: Wrapper) -> tuple[list[DumpedKernel], dict[str, str]]:
        dumped, by_name = list[DumpedKernel](), dict[str, str]()
        for group in groups(wrapper, self._kernels):
            site, about = group.site, self._about(group)
            described = self._described(module, group, about)
            try:
                if site.name in module.others:
                    raise CannotDumpError("ctrace cannot dump kernels of this kind")
                text = kernel_file(site, module, wrapper.below, about)
            except CannotDumpError as error:
                described = replace(described, why_not=str(error))
                if described.built:
                    described = self._with_code(described, self._names.new(described.name))
                dumped.append(described)
                continue
            stem = self._names.new(described.name)
            described = self._with_code(described, stem)
            if site.kernel is not None:
                by_name[site.name] = f"{stem}.py"
            dumped.append(replace(described, file=self._write(f"{stem}.py", text)))
        return dumped, by_name

    def _with_code(self, kernel: DumpedKernel, stem: str) -> DumpedKernel:
        files = code_files(self._session, stem, kernel.built, self._last)
        return replace(kernel, code=tuple(self._write(each.name, each.text) for each in files))

    def _described(self, module: OutputModule, group: LaunchGroup, about: About) -> DumpedKernel:
        site = group.site
        language = module.others.get(site.name, "external")
        if site.kernel is not None:
            language = site.kernel.language
        return DumpedKernel(
            name=_short(site.name),
            language=language,
            file="",
            ops=about.ops,
            lines=about.lines,
            launches=group.launches,
            bytes=about.bytes,
            flops=about.flops,
            built=self._of(group.kernel),
        )

    def _about(self, group: LaunchGroup) -> About:
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
        if kernel:
            return self._built.get(kernel.name, ())
        return ()

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
            return next(reversed(found), "")
    return ""


def _index(session: Session, dumped: Dumped) -> Mapping[str, Any]:
    return {
        "ctrace": __version__,
        "torch": session.environment.torch,
        "target_gpu": plain(dumped.target_gpu, ""),
        "parts": [
            {
                "graph": part.graph,
                "stage": part.stage,
                "folder": part.folder,
                "wrapper": f"{part.folder}/wrapper.py" if part.wrapper else None,
                "not_compared": part.compared or None,
                "left_out": part.why_not or None,
                "kernels": plain(part.kernels, ""),
            }
            for part in dumped.parts
        ],
        "index": INDEX,
    }


_LAST = IR_STAGES[-1]


class CodeFile(Struct, frozen=True):
    """A file of code that Triton compiled."""

    name: str
    text: str


def built_of(session: Session, graph: str, stage: Stage) -> dict[str, tuple[Resources, ...]]:
    """Return every compiled configuration of each kernel of a graph part, by the kernel's name."""
    found: dict[str, tuple[Resources, ...]] = {}
    for each in resources(session, graph, all_of_them=True):
        if each.built.stage is stage:
            found[each.built.kernel] = (*found.get(each.built.kernel, ()), each)
    return found


class Instructions(Struct, frozen=True):
    """The machine code of a graph part's kernels; ctrace may have to disassemble their binaries."""

    by_hash: Mapping[str, str]
    why_not: str = ""


def instructions(session: Session, graph: str) -> Instructions:
    """Read the machine code of all kernels of a graph at once, or say why that fails."""
    compiled = (each for each in session.built if each.graph == graph)
    if not any(_LAST in stages_of(each) for each in compiled):
        return Instructions({})
    try:
        found = codes(session, _LAST, graph=graph)
    except TargetError as error:
        return Instructions({}, error.what)
    return Instructions({each.built.hash: each.text for each in found if each.text is not None})


def code_files(session: Session, stem: str, found: tuple[Resources, ...], last: Instructions) -> Iterator[CodeFile]:
    """Write the code of each configuration: `KERNEL.ptx`, or `KERNEL.1.ptx`, `KERNEL.2.ptx` and so on for several."""
    compiled = [each for each in found if each.built.ir]
    for number, each in enumerate(compiled, 1):
        middle = f".{number}" if len(compiled) > 1 else ""
        for stage in IR_STAGES:
            text = None
            if stage == _LAST:
                text = last.by_hash.get(each.built.hash)
            elif stage in each.built.ir:
                text = text_of(each.built.ir[stage])
            if text is not None:
                yield CodeFile(f"{stem}{middle}.{stage}", f"{_head(session, each, stage)}\n{text.rstrip()}\n")


def _head(session: Session, each: Resources, stage: str) -> str:
    mark = COMMENTS.get(stage, "//")
    gpu = target_of(session)
    target_note = f", emitted for {fmt.one_line(called(gpu), 100)}, not run" if gpu else ""
    return f"{mark} {fmt.one_line(each.built.kernel, 100)}, {configuration_text(each.built)}{target_note}"


def notes(session: Session, found: tuple[Resources, ...], *, generated: bool) -> tuple[str, ...]:
    """Say in the head of a kernel's file which GPU it needs, and which resources each configuration uses."""
    gpu = target_of(session)
    texts = tuple(map(resources_text, found))
    if gpu and generated:
        return (f"emitted for {called(gpu)}, not run; running it needs such a GPU", *texts)
    return texts


def readme(session: Session, dumped: Dumped) -> str:
    """Write the page, in Markdown."""
    versions = [session.environment.device]
    if session.environment.torch:
        versions.insert(0, f"torch {session.environment.torch}")
    return rendered(
        "dump_readme",
        name=session.target.path or session.target.name or "a run",
        versions=[each for each in versions if each],
        target=target_sentence(session),
        parts=dumped.parts,
        cwd=session.environment.cwd,
        resources_text=resources_text,
    )
