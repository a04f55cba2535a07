"""The obligations of a repair: the ways in which two programs can be told apart, and what closes each.

A repair is proved when all are closed: by reading, where the repair's own rules exclude a difference whatever the
inputs are, or by trying, where calls before and after the repair were equal. What only the author can know is a
question, and its obligation stays open until `--accept`.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ctrace.inspector.facts.trial import ON, Entry, Observed
from ctrace.inspector.features.fix.repairs.comparing import KEPT, CallDifference, is_excused
from ctrace.inspector.features.fix.repairs.repair_result import How, Obligation

VALUE, DTYPE, OVERFLOW, GRADIENT, IDENTITY, STATE, EXCEPTIONS, EFFECTS, RANDOM, COST, COMPILED = NAMES = (
    "value",
    "dtype",
    "overflow",
    "gradient",
    "identity",
    "state",
    "exceptions",
    "effects",
    "random",
    "eager_cost",
    "compiled",
)
"""In order: values and which lines run; dtypes and rounding, also in half precision; NaN and overflow, also on the side
that is not selected; gradients, through results and through what stays in the state; identity and shared memory;
attributes, buffers and checkpoints; exceptions, and the state after them; output; random numbers; time in eager; and
whether compiled calls equal eager ones."""

_BY_KIND = {
    "raised": EXCEPTIONS,
    "gradients": GRADIENT,
    "stored": GRADIENT,
    "needed": GRADIENT,
    "inputs": IDENTITY,
    "memory": IDENTITY,
    "state": STATE,
    "printed": EFFECTS,
    "logged": EFFECTS,
    "warned": EFFECTS,
    "random": RANDOM,
}
_OTHER_DTYPES = ("float16", "bfloat16", "float64", "as uint8", "as booleans", "as int32", "as int64", "as float")
_BY_PROBE = (
    # Before the dtypes: `in float16 times 1000` looks for an overflow in float16.
    (OVERFLOW, ("NaN", "infinity", "infinite", "large", "in float16 times ", "plus 1000", "times 1e+06")),
    (DTYPE, (*_OTHER_DTYPES, "integer inputs", "fractional inputs", "autocast", "default dtype")),
    (IDENTITY, ("twice", "views", "expanded", "overlapping", "subclass", "noncontiguous", "another dictionary")),
    (GRADIENT, (" trained", " frozen", "requires_grad", "gradient penalty")),
    (STATE, ("state", "saved", "loaded", "pickled", "copied", "after ", "around ", " = ", "the other mode")),
)
"""What a probe is for, by words of its name; the first that fits."""

_PURE = "its expressions only compute values, so nothing prints, writes or draws random numbers"
_READ: Mapping[str, Mapping[str, str]] = {
    "tensor_scalar": {
        EFFECTS: _PURE,
        RANDOM: _PURE,
        IDENTITY: "the number stays in a tensor of its own, which nothing else writes",
    },
    "tensor_branch": {
        EFFECTS: _PURE,
        RANDOM: _PURE,
        OVERFLOW: "each side that may overflow computes with ones where it is not selected",
    },
    "random_branch": {
        RANDOM: "the condition draws once, before either side, and no side draws",
        OVERFLOW: "each side that may overflow computes with ones where it is not selected",
    },
    "tensor_cond": {EFFECTS: _PURE, RANDOM: _PURE, OVERFLOW: "only the side that is chosen runs"},
    "boolean_index": {EFFECTS: _PURE, RANDOM: _PURE},
    "bounded_loop": {EFFECTS: _PURE, RANDOM: _PURE},
}
"""What the rules of a repair in `source` exclude by reading, whatever the inputs are."""
_OF_HOOKS = (EFFECTS, RANDOM)
"""What reading a statement does not exclude where hooks run: the backward pass that the statement leaves calls them."""

_ASKED: Mapping[str, str] = {
    "output_guard": EFFECTS,
    "ignore_logging_functions": EFFECTS,
    "reorderable_logging_functions": EFFECTS,
    "tensor_assert": EXCEPTIONS,
    "capture_scalar_outputs": EXCEPTIONS,
    "capture_dynamic_output_shape_ops": EXCEPTIONS,
    "tensor_branch": IDENTITY,
    "random_branch": IDENTITY,
    "counter_attribute": STATE,
    "list_growth": STATE,
    "no_grad": GRADIENT,
    "monkeypatch": IDENTITY,
}
"""The obligation that the question of a repair is about; `value` where none is named."""


def tried(
    names: Iterable[str],
    before: Observed,
    found: Iterable[CallDifference],
    *,
    unreached: str = "",
    compiled: str = "",
    keeps_eager: bool = False,
    runs_hooks: bool = False,
) -> tuple[Obligation, ...]:
    """Return the obligations of a change that was observed.

    Args:
        names: the repairs of the change.
        before: the calls without the change.
        found: how calls with the change differ.
        unreached: which lines or calls show nothing; empty: all ran.
        compiled: how compiled calls differ from eager ones; empty: they are equal.
        keeps_eager: whether the change cannot affect eager.
        runs_hooks: whether code may run that no statement of the change calls, such as a hook that prints.
    """
    every = [each for each in found if not is_excused(each)]
    apart = {each.entry for each in every}
    differing = _differing(before, every)
    if unreached:
        differing.setdefault(VALUE, unreached)
    if compiled:
        differing[COMPILED] = compiled
    equal = [entry for entry in before.entries if entry.name not in apart]
    counts = {name: sum(name in _groups(entry) for entry in equal) for name in NAMES}
    repairs = list(names)
    made = []
    for name in NAMES:
        if keeps_eager and name != COMPILED:
            read = KEPT
        else:
            read = _reading(repairs, name)
        # What a setting of torch.compile leaves alone, hooks included, is as it was.
        if runs_hooks and name in _OF_HOOKS and not keeps_eager:
            read = ""
        if name in differing:
            made.append(Obligation(name, closed=False, how=How.TRYING, detail=differing[name]))
        elif read:
            made.append(Obligation(name, closed=True, how=How.READING, detail=read))
        else:
            what = "compiled calls equal eager ones"
            if name != COMPILED:
                what = f"the same in {counts[name]} calls"
            made.append(Obligation(name, closed=True, how=How.TRYING, detail=what))
    return tuple(made)


def _differing(before: Observed, found: Iterable[CallDifference]) -> dict[str, str]:
    """Return what differs, by obligation, without what other differences explain."""
    every = list(found)
    ran, apart = {each.name for each in before.entries}, {each.entry for each in every}
    new = [each for each in every if apart.isdisjoint(_parts(each.entry))]
    # A size that is only tried in another precision tells nothing of the precision where sizes differ anyway.
    unclear = [each for each in new if _about(each) == DTYPE and not ran.issuperset(_parts(each.entry))]
    differing: dict[str, str] = {}
    for each in (*(each for each in new if each not in unclear), *unclear):
        # Where sizes differ in the usual precision as well, nothing is said of the dtype.
        if each not in unclear or VALUE not in differing:
            differing.setdefault(_about(each), f"{each.entry}: {each.detail}")
    return differing


def not_tried(why: str) -> tuple[Obligation, ...]:
    """Return the obligations of a change that was not observed, all open."""
    return tuple(Obligation(name, closed=False, how=How.TRYING, detail=f"not tried: {why}") for name in NAMES)


def with_cost(obligations: Iterable[Obligation], slowdown: float | None, *, asks: str) -> tuple[Obligation, ...]:
    """Return obligations with what the times of eager calls showed; `asks` is the question, or empty."""

    def cost(each: Obligation) -> Obligation:
        if each.how is How.READING or not each.closed:
            return each
        if asks:
            return replace(each, closed=False, how=How.QUESTION, detail=asks)
        if slowdown is None:
            return replace(each, closed=False, detail="not measured")
        return replace(each, detail=f"eager calls take {slowdown:.2f} times as long at most")

    return tuple(cost(each) if each.name == COST else each for each in obligations)


def asked(obligations: Iterable[Obligation], questions: Mapping[str, str], *, accepted: bool) -> tuple[Obligation, ...]:
    """Return obligations where questions of the author stand for some of them, by name."""
    return tuple(
        replace(each, closed=accepted, how=How.QUESTION, detail=questions[each.name])
        if each.name in questions
        else each
        for each in obligations
    )


def question_about(names: Iterable[str]) -> str:
    """Return the obligation that the declared question of a repair is about."""
    return next((_ASKED[name] for name in names if name in _ASKED), VALUE)


def about(difference: CallDifference) -> str:
    """Return the obligation that a difference leaves open."""
    return _about(difference)


def _about(difference: CallDifference) -> str:
    kind = _BY_KIND.get(difference.kind)
    probe = _probe_for(difference.entry)
    if kind == GRADIENT and probe == OVERFLOW:
        return OVERFLOW  # NaN from a side that is not selected
    if kind is not None:
        return kind
    return probe


def _parts(entry: str) -> tuple[str, ...]:
    """Return the calls that change only the model or only the inputs, of one that changes both.

    What differs in one of them is no news with both.
    """
    subject, _, probe = entry.rpartition(", ")
    model, crossed, inputs = probe.partition(ON)
    if not crossed:
        return ()
    return (f"{subject}, {model}", f"{subject}, {inputs}")


def _probe_for(entry: str) -> str:
    return next((name for name, words in _BY_PROBE if any(word in f"{entry} " for word in words)), VALUE)


def _groups(entry: Entry) -> set[str]:
    """Return the obligations that a call closes if it is equal."""
    always = {VALUE, IDENTITY, STATE, EXCEPTIONS, EFFECTS, RANDOM, _probe_for(entry.name)}
    has_backward = entry.gradients is not None or entry.stored is not None
    if has_backward:
        return always | {GRADIENT}
    return always


def _reading(repairs: list[str], name: str) -> str:
    """Return what closes an obligation for all repairs by reading; empty: nothing does."""
    found = [_READ.get(each, {}).get(name, "") for each in repairs]
    if found and all(found):
        return found[0]
    return ""
