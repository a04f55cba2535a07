"""Parse and check the options of a capture, before a process starts.

Parsed are inputs, such as `float32[8,128]`, `mask=bool[8,n]` and `0.5`, whose values the capture creates;
`--vary 0=1,2,3` and `--vary dtype=float64`; and `--assume "model.py:31:12=True,False"`, which says what a value is that
does not exist under `--fake`. `check_options` refuses options that do not fit together, `check_target` those that do
not fit the target.
"""

import ast
import difflib
import math
import re
from pathlib import PurePath

from msgspec import Struct

from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.features.doors import require
from ctrace.inspector.runs.capture_request import Options, is_inductor
from ctrace.inspector.runs.target import ModelTarget, ProgramTarget, Resolved
from ctrace.inspector.runs.virtual_world import check_world

DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
    "complex128",
)  # fmt: skip
CHOICES = {
    "dtype": ("float64", "float32", "float16", "bfloat16"),
    "stride": ("transposed", "noncontiguous", "channels_last"),
    "mode": ("train", "eval"),
    "grad": ("off", "on", "inference"),
    "requires_grad": ("on", "off"),
}
"""What `--vary` can change besides sizes: the possible values, keyed by word."""
_TENSOR = re.compile(r"(?P<dtype>\w+)\[(?P<sizes>[^\]]*)\]")
_KEYWORD = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?!=)(?P<value>.*)", re.DOTALL)
# Longer numbers exceed 64 bits, and with them every size that torch takes.
_DIGITS = 18
_EXAMPLE = 'write a tensor as "float32[8,128]" (a letter makes a dimension dynamic), anything else as a Python literal'


class TensorInput(Struct, frozen=True):
    """A random tensor; a letter in `sizes` is a dynamic dimension."""

    dtype: str
    sizes: tuple[int | str, ...]


class LiteralInput(Struct, frozen=True):
    """A Python value."""

    value: object


class InputSpec(Struct, frozen=True):
    """One argument; positional if it has no name."""

    name: str | None
    value: TensorInput | LiteralInput


class Vary(Struct, frozen=True):
    """A dimension and its sizes, one scenario each."""

    dimension: int
    sizes: tuple[int, ...]


class InputChoice(Struct, frozen=True):
    """One of `CHOICES` and its values, one scenario each."""

    what: str
    values: tuple[str, ...]


def parse_input(text: str) -> InputSpec:
    """Parse one `--input`.

    Raises:
        TargetError: it is neither a tensor nor a literal.
    """
    name, value = None, text.strip()
    if keyword := _KEYWORD.fullmatch(value):
        name, value = keyword["name"], keyword["value"].strip()
    tensor = _TENSOR.fullmatch(value)
    if tensor is not None:
        return InputSpec(name, TensorInput(_dtype(tensor["dtype"], text), _sizes(tensor["sizes"], text)))
    try:
        return InputSpec(name, LiteralInput(ast.literal_eval(value)))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise TargetError(f"--input {text!r} cannot be read", _EXAMPLE) from None


def _dtype(name: str, text: str) -> str:
    if name in DTYPES:
        return name
    todo = did_you_mean(name, DTYPES, f"known ones: {', '.join(DTYPES)}")
    raise TargetError(f"--input {text!r}: there is no dtype {name!r}", todo)


def _sizes(text: str, whole: str) -> tuple[int | str, ...]:
    sizes: list[int | str] = []
    for part in (piece.strip() for piece in text.split(",") if text.strip()):
        if part.isdecimal() and len(part) <= _DIGITS:
            sizes.append(int(part))
        elif part.isidentifier():
            sizes.append(part)
        else:
            raise TargetError(f"--input {whole!r}: {part!r} is not a size", _EXAMPLE)
    return tuple(sizes)


def parse_vary(text: str) -> Vary | InputChoice:
    """Parse one `--vary`, `DIM=SIZE,SIZE,...` or `WORD=VALUE,VALUE,...`.

    Raises:
        TargetError: the form, the word or a value is invalid.
    """
    what, equals, values = (part.strip() for part in text.partition("="))
    if what in CHOICES and equals:
        return InputChoice(what, tuple(_chosen(what, value.strip(), text) for value in values.split(",")))
    try:
        if equals:
            return Vary(int(what), tuple(_natural(size) for size in values.split(",")))
    except ValueError:
        pass
    near = []
    if equals:
        near = difflib.get_close_matches(what, CHOICES, 1)
    if near:
        raise TargetError(f"--vary {text!r}: cannot vary {what!r}", f"did you mean {near[0]}?")
    todo = f'write the dimension and its sizes, as in --vary "0=1,2,8", or one of {", ".join(CHOICES)}'
    raise TargetError(f"--vary {text!r} cannot be read", todo)


def _chosen(what: str, value: str, text: str) -> str:
    known = CHOICES[what]
    if value in known:
        return value
    todo = did_you_mean(value, known, f"known ones: {', '.join(known)}")
    raise TargetError(f"--vary {text!r}: {what} cannot be {value!r}", todo)


def _natural(text: str) -> int:
    size = int(text)
    if size < 0:
        raise ValueError(text)
    return size


_FORM = re.compile(r"(?P<file>[^=]+?):(?P<line>[0-9]{1,9})(?::(?P<column>[0-9]{1,9}))?=(?P<values>.+)")
_TODO = 'write FILE:LINE=VALUES or FILE:LINE:COLUMN=VALUES, as in --assume "model.py:31:12=True,False"'


class Assumption(Struct, frozen=True):
    """The values of an expression, one for each call of the model; the last one also serves all later calls."""

    file: str
    line: int
    column: int | None
    values: tuple[bool | int | float, ...]

    def is_at(self, file: str, line: int, column: int | None) -> bool:
        """Whether a place is the one meant: the path may leave out folders, and the assumption the column."""
        parts, wanted = PurePath(file).parts, PurePath(self.file).parts
        # Where the frame has no column, every expression of the line is meant.
        is_column = self.column is None or column is None or self.column == column
        return line == self.line and is_column and parts[-len(wanted) :] == wanted


def parse_assumption(text: str) -> Assumption:
    """Parse one `--assume`.

    Raises:
        TargetError: it has another form, or a value is neither a number nor True or False.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise TargetError(f"--assume {text}: not a place with values", _TODO)
    values = tuple(_value(each.strip(), text) for each in match["values"].split(","))
    column = None
    if match["column"] is not None:
        column = int(match["column"])
    return Assumption(match["file"], int(match["line"]), column, values)


def _value(word: str, text: str) -> bool | int | float:
    if word in ("True", "False"):
        return word == "True"
    try:
        number = float(word)
        if math.isfinite(number):
            # An integer stays one: sizes and indices do not take 3.0.
            if re.fullmatch(r"[+-]?[0-9]{1,18}", word):
                return int(word)
            return number
    except ValueError:
        pass
    raise TargetError(f"--assume {text}: {word!r} is neither a number nor True or False", _TODO)


def check_options(resolved: Resolved, options: Options) -> None:
    """Refuse options that do not fit the target.

    Raises:
        TargetError: an option does not fit or cannot be parsed.
    """
    if options.gpu is not None:
        check_target(build=options.build, backend=options.backend)
    if options.fast:
        _check_fast(options)
    _check_fake(resolved, options)
    check_world(options.world, options.mesh, options.rank)
    if options.world is not None:
        _check_virtual(options)
    # Programs take what concerns the recording, not the model: they make model and inputs themselves.
    allowed = Options(
        build=options.build,
        guard_cost=options.guard_cost,
        guard_parts=options.guard_parts,
        gpu=options.gpu,
        trace_only=options.trace_only,
        inductor_guards=options.inductor_guards,
        fast=options.fast,
        caches=options.caches,
        world=options.world,
        mesh=options.mesh,
        rank=options.rank,
        assume=options.assume if options.world is not None else (),
    )
    if isinstance(resolved, ProgramTarget) and options != allowed:
        what = f"{resolved.path} is a program: it makes its own inputs and calls torch.compile itself"
        todo = "use only --build, --fast, --target, --world and --timeout with it, or name an object: file.py:name"
        raise TargetError(what, todo)
    for text in options.inputs:
        parse_input(text)
    for text in options.vary:
        parse_vary(text)


def _check_fast(options: Options) -> None:
    """Refuse options that `--fast` cannot serve.

    Raises:
        TargetError: another option needs a backend.
    """
    others = {"--target": options.gpu is not None, "--build": options.build, "--backend": options.backend}
    conflict = next((name for name, is_set in others.items() if is_set), None)
    if conflict is not None:
        raise TargetError(
            f"--fast and {conflict} exclude each other", "remove one: with --fast, graphs do not go through a backend"
        )


def _check_virtual(options: Options) -> None:
    """Refuse what needs the other ranks.

    Raises:
        TargetError: another option excludes `--world`, or the feature is not there.
    """
    require("cluster", "--world")
    if options.build:
        todo = "remove one: kernels of a rank without its peers compute with values that the peers never sent"
        raise TargetError("--world and --build exclude each other", todo)


def _check_fake(resolved: Resolved, options: Options) -> None:
    """Refuse what needs values, and assumptions about values that exist.

    Raises:
        TargetError: another option excludes `--fake`, or needs it.
    """
    is_folder = isinstance(resolved, ModelTarget) and resolved.path is not None and resolved.path.is_dir()
    if is_folder and options.build:
        todo = "remove --build, or write a model file that loads the weights"
        raise TargetError("hf: makes a model without its weights, so kernels cannot run", todo)
    if options.fake and options.build:
        todo = "remove one: without weights, there is nothing to run kernels on"
        raise TargetError("--fake and --build exclude each other", todo)
    if options.fake or options.layers is not None:
        require("fake", "--fake" if options.fake else "--layers")
    for text in options.assume:
        parse_assumption(text)


def check_target(*, build: bool = False, backend: str | None = None) -> None:
    """Refuse options that exclude `--target`.

    Raises:
        TargetError: an option excludes it, or the virtual GPU is not there.
    """
    require("gpus", "--target")
    if build:
        todo = "remove one: --target generates kernels for a GPU that may not be present, so they cannot run"
        raise TargetError("--target and --build exclude each other", todo)
    if not is_inductor(backend):
        todo = "remove one: only Inductor generates kernels"
        raise TargetError(f"--target and --backend {backend} exclude each other", todo)
