"""Parse the repr of AOTAutograd's ViewAndMutationMeta, a dataclass (2.13, _functorch/_aot_autograd/schemas.py)."""

import re
from enum import StrEnum

from msgspec import Struct

_FLAG = re.compile(r"\b(\w+)=(True|False)")
_OUTPUT_TYPE = re.compile(r"output_type=<OutputType\.(\w+)")
_BASE = re.compile(r"base_idx=(\d+|None)")


class Shares(StrEnum):
    """Whose memory an output shares, in torch's terms (`OutputType` in schemas.py)."""

    NOTHING = "non_alias"
    VIEW_OF_INPUT = "alias_of_input"
    INPUT = "is_input"
    VIEW_OF_MADE = "alias_of_intermediate"
    VIEW_OF_MADE_SAVED = "alias_of_intermediate_save_as_output"
    """A view of a tensor that the graph creates and returns as a hidden output."""
    VIEW_OF_OUTPUT = "alias_of_intermediate_base_is_user_output"
    UNSAFE_VIEW = "unsafe_view_alias"
    FUNCTION_VIEW = "custom_function_view"
    OTHER = "other"
    """An unknown value, from a newer torch."""


class ChangedInput(Struct, frozen=True):
    """How a graph changes one of its inputs."""

    index: int
    data: bool
    """Whether the graph changes the input's values."""
    metadata: bool
    """Whether the graph changes the input's sizes or strides, as `x.t_()` does."""

    @property
    def is_changed(self) -> bool:
        """Whether the graph changes the input in any way."""
        return self.data or self.metadata


class Returned(Struct, frozen=True):
    """An output that the user's code gets; `base` is the number of the input or output of which it is a view."""

    index: int
    shares: Shares
    base: int | None


class Aliases(Struct, frozen=True):
    """Which inputs a graph mutates, and which memory its outputs share."""

    inputs: tuple[ChangedInput, ...] = ()
    outputs: tuple[Returned, ...] = ()


def aliases(text: str) -> Aliases | None:
    """Parse the text; return None if it is missing or has another form."""
    if not text.startswith("ViewAndMutationMeta("):
        return None
    inputs, outputs = _parts(text, "InputAliasInfo("), _parts(text, "OutputAliasInfo(")
    return Aliases(
        tuple(_input(index, part) for index, part in enumerate(inputs)),
        tuple(_output(index, part) for index, part in enumerate(outputs)),
    )


def _parts(text: str, name: str) -> list[str]:
    """Return the text of each object of a class; the last one ends where objects of another class may begin."""
    return [part.partition("output_info=")[0].partition("num_intermediate")[0] for part in text.split(name)[1:]]


def _input(index: int, text: str) -> ChangedInput:
    flags = {name: value == "True" for name, value in _FLAG.findall(text)}
    metadata = flags.get("mutates_metadata", False) or flags.get("mutates_storage_metadata", False)
    return ChangedInput(index, flags.get("mutates_data", False), metadata)


def _output(index: int, text: str) -> Returned:
    output, base = _OUTPUT_TYPE.search(text), _BASE.search(text)
    word = output[1] if output else ""
    shares = Shares(word) if word in tuple(Shares) else Shares.OTHER
    return Returned(index, shares, int(base[1][:9]) if base and base[1] != "None" else None)
