"""What ctrace knows of torch's ops, as data: their descriptions, and arguments that take numbers only.

Arguments that take Python numbers and no tensor, such as the probability of dropout, are in `number_arguments.yaml`,
which `tools/number_arguments.py` writes from torch's schemas.

Steep and drawing ops must not see what `torch.where` does not select. `torch.where` computes both sides, and a backward
pass multiplies the gradient of the side that is not selected by zero: zero times infinity is NaN. So a steep op gets
ones there: `h.log()` becomes `torch.where(c, h, 1).log()`.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ctrace.inspector.knowledge.counting import words

_FOLDER = Path(__file__).parent
_FUNCTIONS = {
    "torch__dynamo_variables_torch_flat_apply_capture": "a call that AOT traces instead of Dynamo (nonstrict_trace)"
}
"""Functions that are no ops, by the name that FX writes (_dynamo/variables/torch.py, 2.13 and 2.15)."""
NUMBERS_FILE = _FOLDER / "number_arguments.yaml"
# The file has one op a line, so that a pattern reads it, in a sixth of the time that yaml takes.
_LINE = re.compile(r"^(?P<op>\w+): \{(?P<arguments>.*)\}$", re.MULTILINE)
_ARGUMENT = re.compile(r"(?P<name>\w+): (?P<place>-?\d+)")
STEEP = words("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal square pow")
"""Ops of one tensor whose derivative may be infinite or overflow, and is finite at one."""
DRAWING = words(
    """
    rand randn randint randperm rand_like randn_like randint_like bernoulli multinomial normal poisson dropout
    alpha_dropout feature_dropout uniform_ normal_ exponential_ random_ bernoulli_
    """
)
"""Ops that draw random numbers: computing a side that Python would skip changes all numbers after it."""
VIEWS = words(
    """
    view reshape flatten unsqueeze squeeze permute transpose t expand narrow unfold chunk split select
    contiguous view_as reshape_as expand_as to type type_as float double half bfloat16 detach swapaxes movedim
    unbind
    """
)
"""Methods whose result may share memory with the tensor, or be the tensor itself."""


@cache
def _words() -> dict[str, str]:
    import yaml  # imported late: only views that describe ops need it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data: dict[str, str] = yaml.load((_FOLDER / "aten.yaml").read_text(encoding="utf-8"), loader)
    return data


def word(op: str) -> str:
    """Describe an op in a few words, by its name without overload, such as `aten.mm`; empty if unknown."""
    return _FUNCTIONS.get(op) or _words().get(op, "")


def number_arguments(op: str) -> Mapping[str, int]:
    """Return the arguments of an op that take no tensor, with their positions in a call of the function."""
    return _every().get(op, {})


@cache
def _every() -> Mapping[str, Mapping[str, int]]:
    text = NUMBERS_FILE.read_text(encoding="utf-8")
    return {
        line["op"]: {each["name"]: int(each["place"]) for each in _ARGUMENT.finditer(line["arguments"])}
        for line in _LINE.finditer(text)
    }
