"""Dump a run: a folder for each graph part with its kernels, wrapper and graph, and an index with a README.

- `graph.py` is a function that runs the graph behind the part's code in eager, op by op.
- The wrapper of a graph part has `call`, which uses the kernels in their files, and a comparison with eager.
- Each kernel has a file: its source, a run with made-up inputs, and a benchmark. Launches of the same kernel share one
  file; compiled code has one file per stage, and its resources are described.

File and folder names are safe on every file system.
"""

import ast
import re
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
from ctrace.inspector.findings.kernels.emitted_code import dotted
from ctrace.inspector.findings.target_gpu_view import called, target_device, target_of, target_sentence
from ctrace.inspector.grouping import collected
from ctrace.inspector.version import __version__
from ctrace.reports import format as fmt
from ctrace.reports.dump.dump_folder import INDEX, Folder
from ctrace.reports.dump.dumped import Dumped, DumpedKernel, DumpedPart
from ctrace.reports.dump.launch_code import (
    About,
    CannotDumpError,
    LaunchSite,
    Value,
    Wrapper,
    WrapperTensor,
    entry,
    follow,
    imports,
    needed,
    source,
    table,
    taken_names,
)
from ctrace.reports.dump.module import Defined, OutputModule, block, bound, comment, comments, read, string
from ctrace.reports.dump.texts import text
from ctrace.reports.json.printer import plain
from ctrace.reports.markup import code
from ctrace.reports.wording.kernels_wording import COMMENTS, configuration_text, resources_text

_OURS = frozenset(
    ("inputs", "run", "benchmark", "main", "NAME", "LANGUAGE", "DEVICE", "BYTES", "FLOPS", "ARGUMENTS", "LOW", "HIGH",
     "MISSING", "SOURCE", "TYPES")
)  # fmt: skip
"""Names that every dumped file defines."""
_IMPORT_ASYNC = ast.parse("from torch._inductor.async_compile import AsyncCompile").body


def kernel_file(site: LaunchSite, module: OutputModule, below: Mapping[str, int], about: About) -> str:
    """Write the file of a kernel that the module defines, or of a call of a library.

    Raises:
        CannotDumpError: an argument is not known, or the source does not fit into a dumped file.
    """
    arguments = _known(site)
    imported, assigned = needed(module, site)
    own: list[ast.stmt]
    if site.kernel is None:
        own, written, language = [], "", "external"
    elif site.kernel.language == "triton":
        own, written = source(site.kernel.source)
        _refuse_ours(written)
        written += _bound(site.kernel, written)
        language = "triton"
    else:
        own, written, language = list(_IMPORT_ASYNC), _cpp(site.kernel), "cpp"
    every = {ast.unparse(each): each for each in (*own, *imported)}
    return "\n".join(
        [
            *_wrapper_head(about),
            imports(every.values()),
            written,
            *assigned,
            "",
            f"NAME = {string(about.title)}",
            f"LANGUAGE = {string(language)}",
            f"DEVICE = {string(device_of(arguments.values()))}",
            f"BYTES = {about.bytes!r}",
            f"FLOPS = {about.flops!r}",
            "ARGUMENTS = [",
            *table(arguments, below),
            "]",
            "",
            "",
            *_run(site, arguments),
            "",
            "",
            text("tensors") + text("kernel"),
        ]
    )


def _wrapper_head(about: About) -> list[str]:
    ops = ", ".join(about.ops) or "not known"
    launches = ""
    if about.launches > 1:
        launches = f"launched {about.launches} times; the arguments below are those of the first launch"
    lines = [
        about.title,
        f"aten ops: {ops}",
        *(f"line: {line}" for line in about.lines),
        *about.notes,
        launches,
        "python THIS_FILE runs it once and times it; from Python: inputs(), run(args), benchmark()",
    ]
    return list(comments(lines))


def _known(site: LaunchSite) -> dict[str, Value]:
    for name, value in site.arguments.items():
        if value is None or isinstance(value, list) or (isinstance(value, WrapperTensor) and not value.is_known):
            raise CannotDumpError(f"its argument {name} is not known")
    return dict(site.arguments)


def _refuse_ours(written: str) -> None:
    clash = sorted(taken_names(written) & _OURS)
    if clash:
        raise CannotDumpError(f"its source defines {clash[0]}, a name that the dumped file also defines")


def _bound(kernel: Defined, written: str) -> str:
    """Bind the kernel to the name that the wrapper uses; empty if the source defines that name."""
    defined = taken_names(written)
    if kernel.name in defined:
        return ""
    if kernel.function not in defined:
        raise CannotDumpError(f"its source does not define {kernel.function}")
    return f"\n{kernel.name} = {kernel.function}\n"


def _cpp(kernel: Defined) -> str:
    types = ", ".join(string(each) for each in kernel.types)
    return (
        f"TYPES = [{types}]\nSOURCE = {block(kernel.source)}\n{text('built')}"
        f"{kernel.name} = _Built()\n{comment('Called as in the wrapper.')}\n"
    )


def _run(site: LaunchSite, arguments: Mapping[str, Value]) -> list[str]:
    verb = "Call it" if site.kernel is None else "Launch it"
    lines = ["def run(args):", f'    """{verb} as the wrapper does."""']
    if arguments:
        lines.append(f"    [{', '.join(arguments)}] = args")
    if device_of(arguments.values()) != "cpu":
        lines += [f"    torch.cuda.set_device({at})" for at in set(site.streams.values())]
    lines += [f"    {name} = get_raw_stream({number})" for name, number in site.streams.items()]
    lines.append(f"    return {ast.unparse(site.call)}")
    return lines


def device_of(values: Iterable[Value]) -> str:
    """Return the device of some arguments: the first that is not the CPU, else `cpu`."""
    found = [each.device for each in values if isinstance(each, WrapperTensor) and each.device]
    return next((each for each in found if each != "cpu"), "cpu")


_DRAWS = re.compile(r"\btl\.rand|randint64|philox|\brandn?_cpu|normalized_rand|randint|bernoulli|aten\.rand|dropout\b")
_ASYNC = ("AsyncCompile()", "AsyncCompile")


class WrapperParts(Struct, frozen=True):
    """The contents of a wrapper's file."""

    title: str
    code: str
    """The output code."""
    module: OutputModule
    wrapper: Wrapper
    files: Mapping[str, str]
    """The file of each kernel, keyed by the kernel's name."""
    graph: str
    """Why there is no graph to compare with; empty if there is one."""


def wrapper_file(parts: WrapperParts) -> str:
    """Write the wrapper's file."""
    before = _before(parts)
    return "\n".join([before, *_tables(parts, before), text("tensors") + text("watching")])


def _before(parts: WrapperParts) -> str:
    module, lines = parts.module, parts.code.splitlines()
    uses_async = bool(module.others)
    header = [each for each in module.header if uses_async or ast.unparse(each.value) != _ASYNC[0]]  # type: ignore[attr-defined]
    kept = [line for statement in module.kept for line in [*_wrapper_lines(lines, statement), ""]]
    return "\n".join(
        [
            *comments(
                [
                    parts.title,
                    "As Inductor generated it, but with the kernels imported from the files beside this one.",
                    "python THIS_FILE compares with graph.py and times it; from Python: inputs(), call(args)",
                ]
            ),
            imports(each for each in module.imports if uses_async or _ASYNC[1] not in bound(each)),
            *(line for each in header for line in _wrapper_lines(lines, each)),
            "",
            text("loading"),
            *(f"_{name} = _load({string(file)})\n{name} = _{name}.{name}" for name, file in parts.files.items()),
            "",
            *_embedded(parts, lines),
            *kept,
        ]
    )


def _embedded(parts: WrapperParts, lines: list[str]) -> Iterable[str]:
    """Keep the sources of kernels that have no file, since `call` needs them."""
    missing = [name for name in parts.module.kernels if name not in parts.files]
    if missing:
        yield comment("Kernels without a file; index.json says why.")
        tree = ast.parse(parts.code)
        yield from () if parts.module.others else ["async_compile = AsyncCompile()"]
        for statement in tree.body:
            if set(bound(statement)) & set(missing):
                yield from _wrapper_lines(lines, statement)
        yield "async_compile.wait(globals())"


def _wrapper_lines(lines: list[str], statement: ast.stmt) -> list[str]:
    return lines[statement.lineno - 1 : statement.end_lineno]


def _tables(parts: WrapperParts, before: str) -> Iterable[str]:
    inputs = parts.wrapper.inputs
    unknown = [name for name, value in inputs.items() if not _is_known(value)]
    values = {name: value for name, value in inputs.items() if name not in unknown}
    constants = {name: value for name, value in parts.wrapper.constants.items() if _is_known(value)}
    below = parts.wrapper.below
    starts = [name for name in parts.files if parts.module.kernels[name].language == "cpp"]
    return [
        "",
        f"NAME = {string(parts.title)}",
        f"DEVICE = {string(device_of(_tensors(parts.wrapper)))}",
        f"GRAPH = {string(parts.graph) if parts.graph else None}",
        f"STARTS = [{', '.join(f'{name}.start' for name in starts)}]",
        f"UNKNOWN = {unknown!a}",
        "INPUTS = [",
        *table(values, below),
        "]",
        "CONSTANTS = {",
        *(f"{string(name)}: {line.strip()}" for name, line in zip(constants, table(constants, below), strict=True)),
        "}",
        "LAUNCHES = {  # by line of this file: kernel, why it cannot be compared, buffers that it writes",
        *_launches(parts, before),
        "}",
        "",
        "",
    ]


def _is_known(value: Value) -> bool:
    if isinstance(value, WrapperTensor):
        return value.is_known
    return value is not None


def _tensors(wrapper: Wrapper) -> list[Value]:
    return [*wrapper.inputs.values(), *(value for site in wrapper.sites for value in site.arguments.values())]


def _launches(parts: WrapperParts, before: str) -> Iterable[str]:
    """List the kernels that each line of the file launches, in order, and the buffers that they write."""
    found: dict[int, list[tuple[str, str, tuple[str, ...]]]] = {}
    chance = ""
    placed = read(before)
    for site in follow(_with(placed, parts.module), {}).sites if placed else ():
        name = site.name.removeprefix("extern_kernels.")
        if _is_random(site):
            chance = "random numbers"
        found.setdefault(site.line, []).append((name, chance, site.written))
        chance = "an earlier kernel used random numbers" if chance else ""
    return [f"    {line}: {entries!a}," for line, entries in sorted(found.items())]


def _with(placed: OutputModule, module: OutputModule) -> OutputModule:
    return replace(placed, kernels=module.kernels, others=module.others, inputs=module.inputs)


def _is_random(site: LaunchSite) -> bool:
    written = site.kernel.source if site.kernel else site.name
    return bool(_DRAWS.search(written))


_CLASS = re.compile(r"^class .+\(torch\.nn\.Module\):$")
_RANDOM = re.compile(
    r"(?:^|\.|_)(?:rand|randn|randint|random|randperm|bernoulli|normal|multinomial|seeds?|philox_\w+|exponential|"
    r"uniform|geometric|cauchy|log_normal|native_dropout|dropout)(?:_like|_)?(?:\.|$)"
)
_ATTENTION = "_scaled_dot_product_"
_EMPTY = re.compile(r"\.(?:new_)?empty(?:_strided|_like|_permuted)?(?:\.|$)")
_HEAD = """\
import math
import operator
from math import inf, nan

import torch
from torch import device

try:  # registers Inductor's internal operators
    import torch._inductor.fx_passes.post_grad
    import torch._inductor.inductor_prims
    import torch._inductor.lowering
except ImportError:
    pass


"""
_TAIL = '''

def run(constants, arguments):
    """Run the graph on a list of arguments; `constants` are the tensors that the graph itself holds, by name."""
    graph = GraphModule()
    for name, value in constants.items():
        setattr(graph, name, value)
    with torch.no_grad():
        return graph.forward(*arguments)
'''


class GraphFile(Struct, frozen=True):
    """The file, or why there is none."""

    text: str = ""
    why_not: str = ""


def graph_file(printed: str, title: str) -> GraphFile:
    """Turn a printed graph into a Python module."""
    written = "\n".join(_graph_lines(printed)) + "\n"
    forward = _forward(written)
    if forward is None:
        return GraphFile(why_not="torch's text of the graph is not a Python module with one graph")
    if reason := _not_eager(forward):
        return GraphFile(why_not=reason)
    before = f"{comment(title)}\n# As torch printed it; run(constants, arguments) returns its outputs.\n{_HEAD}"
    placed = _forward(before + written)
    if placed is None:
        return GraphFile(why_not="torch's text of the graph is not a Python module with one graph")
    random = _random(forward)
    names = [each.arg for each in forward.args.args[1:]]
    tables = (
        f"\n\nASSIGNED = {_assigned(placed)!r}\n# Names that this file assigns, by line.\n"
        f"NOT_COMPARABLE = {_outputs(forward, random)!r}\n"
        "# Outputs that depend on random numbers or uninitialized memory, and why.\n"
        f"PLACEHOLDERS = {names!r}\n# Names of the inputs.\n"
        f"CHANGED_INPUTS = {_changed(forward, names)!r}\n# Indexes of inputs that the graph writes to.\n"
    )
    return GraphFile(before + written + tables + _TAIL)


def _graph_lines(printed: str) -> list[str]:
    """Rename the graph's class to a valid Python name, and drop the lines above the class."""
    lines = printed.splitlines()
    start = next((number for number, line in enumerate(lines) if _CLASS.match(line)), 0)
    if lines:
        return ["class GraphModule(torch.nn.Module):", *lines[start + 1 :]]
    return []


def _forward(written: str) -> ast.FunctionDef | None:
    """Return the `forward` of a module's only class; None unless that is the only function."""
    try:
        tree = ast.parse(written)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    is_one = len(classes) == 1 and len(functions) == 1 and functions[0].name == "forward"
    return functions[0] if is_one else None


def _not_eager(forward: ast.FunctionDef) -> str:
    """Return why the printed graph cannot run in eager; empty if it can."""
    for node in ast.walk(forward):
        if isinstance(node, ast.Attribute) and "torch.ops.higher_order." in dotted(node):
            return f"the graph calls {dotted(node)}, which needs more than its text"
    return ""


def _sets(forward: ast.FunctionDef) -> list[tuple[str, ast.expr, int]]:
    """List names with the values assigned to them; skip `name = None`, which only frees a value."""
    found = []
    for node in ast.walk(forward):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        if isinstance(node.value, ast.Constant) and node.value.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        found += [(target.id, node.value, node.lineno) for target in targets if isinstance(target, ast.Name)]
    return found


def _assigned(forward: ast.FunctionDef) -> dict[int, list[str]]:
    return collected((line, name) for name, _, line in sorted(_sets(forward), key=lambda each: each[2]))


def _random(forward: ast.FunctionDef) -> dict[str, str]:
    """Find the values that depend on random numbers or uninitialized memory, and why."""
    found: dict[str, str] = {}
    made: dict[str, str] = {}
    for name, value, _ in sorted(_sets(forward), key=lambda each: each[2]):
        made[name] = dotted(value.func) if isinstance(value, ast.Call) else ""
        match value:
            case ast.Subscript(value=ast.Name(id=whole), slice=ast.Constant(value=int() as at)) if at > 1:
                if _ATTENTION in made.get(whole, ""):
                    found[name] = "the random state of an attention kernel"
        reason = _chance(value) or next(
            (found[node.id] for node in ast.walk(value) if isinstance(node, ast.Name) and node.id in found), ""
        )
        if reason:
            found.setdefault(name, reason)
    return found


def _chance(value: ast.expr) -> str:
    if not isinstance(value, ast.Call):
        return ""
    called = dotted(value.func)
    if _ATTENTION in called and "backward" not in called and _drops(value):
        return f"random numbers of {called}"
    if _EMPTY.search(called):
        return f"{called} returns uninitialized memory"
    if _RANDOM.search(called) and "backward" not in called:
        return f"random numbers of {called}"
    return ""


def _drops(call: ast.Call) -> bool:
    """Whether a call of an attention kernel has a dropout probability above zero."""
    probabilities = [
        each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, float)
    ]
    return any(probability > 0 for probability in probabilities[:1])


def _outputs(forward: ast.FunctionDef, random: dict[str, str]) -> dict[int, str]:
    for node in forward.body:
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple | ast.List):
            names = [each.id if isinstance(each, ast.Name) else "" for each in node.value.elts]
            return {at: random[name] for at, name in enumerate(names) if name in random}
    return {}


def _changed(forward: ast.FunctionDef, names: list[str]) -> list[int]:
    """Find the inputs that in-place ops such as `copy_` write to."""
    written = {
        call.args[0].id
        for call in ast.walk(forward)
        if isinstance(call, ast.Call)
        and re.search(r"\.\w+_\.|\.copy_\b", dotted(call.func) + ".")
        and call.args
        and isinstance(call.args[0], ast.Name)
    }
    return [at for at, name in enumerate(names) if name in written]


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
        # The wrapper and the log have a kernel's launches in the same order.
        launch = kernel.launches[at] if kernel and at < len(kernel.launches) else None
        key = site.name, "" if site.kernel else _form(site, wrapper.below)
        first = found.get(key)
        found[key] = replace(first, launches=first.launches + 1) if first else LaunchGroup(site, kernel, launch)
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
    limit = {"": below[value.storage]} if isinstance(value, WrapperTensor) and value.storage in below else {}
    return entry(replace(value, storage="") if isinstance(value, WrapperTensor) else value, limit)


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
    if stem.lower() in _RESERVED:
        return f"_{stem}"
    return stem


class FileNames:
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

    def _described(self, module: OutputModule, group: LaunchGroup, about: About) -> DumpedKernel:
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
            return found[-1] if found else ""
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
            text = text_of(each.built.ir[stage]) if stage in each.built.ir else None
            if stage == _LAST:
                text = last.by_hash.get(each.built.hash)
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
    target_note = (f"emitted for {called(gpu)}, not run; running it needs such a GPU",) if gpu and generated else ()
    return (*target_note, *map(resources_text, found))


_HOW = """\
Every kernel has its own file, with its source as Inductor generated it, made-up inputs, and a benchmark.

    python FOLDER/KERNEL.py      run it once, time it, print bytes and FLOPs per second
    python FOLDER/wrapper.py     run all kernels of the graph part and compare with the graph run in eager

From Python, a kernel's file has `inputs()`, `run(args)` and `benchmark()`, which returns seconds. `wrapper.py`
imports the kernels from their files: edit one, and the wrapper runs it and says whether the results are still right.
`graph.txt` is the graph that Inductor compiled, as torch printed it; `graph.py` is the same graph as a program.

Inputs are made up, from a fixed seed: floating-point numbers between -1 and 1 (between 0.1 and 1 if others make the
graph return NaN or infinity); integers below the size that they index, if the kernels show it, else 0 or 1.
If a call needs operators that your own library registers, add `--import MODULE`.

Exit codes: 0 done, 1 the results differ from eager or eager fails, 2 this machine lacks something, such as the device.

**These files are code.** Kernels and graphs come unchanged from a log; run them only if you trust the log.
"""

_NEEDS = (
    "To run these files, copy them to a machine with that GPU. Registers, spills and shared memory are from Triton's "
    "compiler; bytes and FLOPs are computed; times are not measured."
)


def readme(session: Session, dumped: Dumped) -> str:
    """Write the page, in Markdown."""
    return "\n".join([*_lines(session, dumped), ""])


def _lines(session: Session, dumped: Dumped) -> Iterator[str]:
    name = session.target.path or session.target.name or "a run"
    versions = [f"torch {session.environment.torch}" if session.environment.torch else "", session.environment.device]
    yield f"# Kernels of {_cell(name)}"
    yield ""
    yield ", ".join(_cell(each) for each in versions if each) or "The log does not record the torch version."
    yield ""
    if line := target_sentence(session):
        yield f"{_cell(line)} {_NEEDS}"
        yield ""
    yield _HOW
    for part in dumped.parts:
        yield from _part(part, session.environment.cwd)


def _part(part: DumpedPart, cwd: str) -> Iterator[str]:
    yield f"## Graph {_cell(part.graph)}, {part.stage}: `{part.folder}/`"
    yield ""
    if part.why_not:
        yield f"Left out: {_cell(part.why_not)}."
        yield ""
        return
    yield f"Not compared with eager: {_cell(part.compared)}." if part.compared else "`wrapper.py` compares with eager."
    yield ""
    if part.no_instructions:
        yield f"No machine code (SASS): {_cell(part.no_instructions)}."
        yield ""
    yield "| kernel | language | launches | bytes | FLOPs | aten ops | lines |"
    yield "|---|---|---:|---:|---:|---|---|"
    for each in part.kernels:
        yield f"| {' | '.join(_row(each, cwd))} |"
    yield ""
    for each in part.kernels:
        yield from _built(each)
        if each.why_not:
            yield f"{code(each.name)} has no file: {_cell(each.why_not)}."
            yield ""


def _built(each: DumpedKernel) -> Iterator[str]:
    """List the resources of each configuration of a compiled kernel, and its code files."""
    if not each.built:
        return
    yield f"{code(each.name)}, as compiled:"
    yield ""
    yield from (f"- {_cell(resources_text(found))}" for found in each.built)
    if each.code:
        names = [(file.rpartition("/")[2], file) for file in each.code]
        yield f"- code: {', '.join(f'[{name}]({file})' for name, file in names)}"
    yield ""


def _row(each: DumpedKernel, cwd: str) -> list[str]:
    name = _cell(each.name)
    is_file = bool(each.file.rpartition("/")[2])
    memory = "not known" if each.bytes is None else fmt.memory(each.bytes)
    flops = "not known" if each.flops is None else str(each.flops)
    return [
        f"[{name}]({each.file})" if is_file else name,
        _cell(each.language),
        str(each.launches),
        memory,
        flops,
        _cell(", ".join(each.ops)) or "not known",
        _cell(", ".join(fmt.path(line, cwd) for line in each.lines)) or "not known",
    ]


def _cell(text: str) -> str:
    """Make foreign text safe for a table cell: one line, no bars, no markup."""
    line = fmt.one_line(text, 200)
    return "".join(f"\\{letter}" if letter in "|`<>[]*\\" else letter for letter in line)
