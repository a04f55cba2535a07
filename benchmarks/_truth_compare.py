"""Compare what ctrace says about a case with what torch did, and judge its first line of advice. Pure functions."""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

Data = dict[str, Any]
KINDS = ("error", "verdict", "graphs", "sites", "places", "recompiles", "limit", "ops", "outlook", "dangers")
"""What is compared."""
_CONFIG = re.compile(r"(?:torch\._dynamo\.config\.| and )(?P<name>[a-z]\w+) = (?P<value>True|False)")
_DYNAMIC = re.compile(r"(?:torch\.compile\([^)]*|compile (?:it )?with )`?dynamic=(?P<value>True|False)", re.IGNORECASE)
_UNKNOWN = re.compile(r"not known|no advice", re.IGNORECASE)
_OPS_OF_ONE = 5
"""How many more ops outside of graphs undo one graph, break or recompilation less.

A choice, not a measurement: a change must not win because it leaves most of a model in eager.
"""
_ROUNDING = 1e-5
"""The share of what is added that a sum in float32 may be off by, in another order of a thousand numbers."""
_COUNTED = ("graphs", "breaks", "recompiles", "limit", "outside")


class Judgement(StrEnum):
    """What the first line of advice is worth."""

    IMPROVED = "improved a count"
    NOTHING = "rightly nothing to change"
    NO_EFFECT = "no effect"
    WORSE = "worse"
    CONTRADICTS = "contradicts a number on the same screen"
    UNKNOWN = "not known"
    NOT_CARRIED_OUT = "not carried out by program"

    @property
    def is_good(self) -> bool:
        return self in (Judgement.IMPROVED, Judgement.NOTHING)


def difference(kind: str, torch: Any, ctrace: Any, about: str = "") -> Data:
    return {"kind": kind, "torch": torch, "ctrace": ctrace, "about": about}


def differences(truth: Data, eager: Data, report: Data) -> list[Data]:
    """Return the differences between torch and `ctrace explain --json` on two calls, by kind."""
    two = after(truth, 2)
    raised = truth["error"] if truth["error"] and truth["error"]["call"] < len(_TWO) else None
    found = []
    if bool(raised) != bool(report["error"]):
        both = raised and f"{raised['type']}: {raised['message']}", (report["error"] or {}).get("message")
        found.append(difference("error", *both))
    if raised or report["error"]:
        return found  # the counts of a run that raised depend on where it stopped
    if report["verdict"] != (verdict := verdict_of(two)):
        found.append(difference("verdict", verdict, report["verdict"]))
    counted = {
        "graphs": (two["graphs"], len(report["graphs"])),
        "recompiles": (two["recompiles"], len(report["recompiles"])),
        "limit": (bool(two["limit"]), report["limit"]["hit"]),
    }
    found += [difference(kind, *both) for kind, both in counted.items() if both[0] != both[1]]
    found += [*_sites(two, report), *_ops(truth, eager, report), *_outlook(truth, two, report)]
    if report.get("dangers") and same_prints(truth, eager):
        titles = [each.get("kind") or each.get("what") or str(each)[:80] for each in report["dangers"]]
        found.append(difference("dangers", "the same outputs as eager", titles))
    return found


_TWO = ("first call", "second call")


def after(truth: Data, calls: int) -> Data:
    """Return the counts after so many calls, or after the last that there was."""
    counts: Data = truth.get(f"after_{calls}") or truth["last"]
    return counts


def verdict_of(counts: Data) -> str:
    """Return the verdict that torch's counts mean."""
    if not counts["graphs"]:
        return "not_compiled"
    return "partial" if counts["sites"] or counts["limit"] else "compiled"


def _sites(two: Data, report: Data) -> Iterator[Data]:
    """Compare sites by innermost frame where ctrace says it, and by the user's line."""
    inner = {(name(each["file"]), each["line"], each["gb"]) for each in two["sites"]}
    breaks = report["breaks"]
    told = {
        (name(place["file"]), place["line"], ",".join(each["gb"])) for each in breaks if (place := each.get("place"))
    }
    if told and inner != told:
        yield difference("places", sorted(map(str, inner - told)), sorted(map(str, told - inner)))
    elif not told and len(inner) != len(breaks):
        yield difference("places", len(inner), len(breaks), "; ".join(sorted(":".join(map(str, at)) for at in inner)))
    lines = {(name(file), line) for each in two["sites"] for file, line in each["users"]}
    said = {(name(line["file"]), line["line"]) for each in breaks for line in each.get("reached_from") or [each]}
    if lines != said:
        yield difference("sites", sorted(map(str, lines - said)), sorted(map(str, said - lines)))


def name(file: str | None) -> str:
    return Path(file or "").name


def _ops(truth: Data, eager: Data, report: Data) -> Iterator[Data]:
    outside = truth["outside"].get("2")
    coverage = report["coverage"]
    if outside is None or coverage["ops"] is None or coverage["compiled"] is None:
        return
    left = coverage["ops"] - coverage["compiled"]
    computed = outside["ops"] - sum(outside["names"].get(each, 0) for each in _CONVERSIONS)
    alike = [outside["ops"], computed]
    if not truth["last"]["graphs"]:
        alike.append(eager.get("dispatched", 0))  # then all ops of an eager call are outside, however they are counted
    if bool(left) != bool(outside["ops"] if left else computed) or not any(_is_alike(left, each) for each in alike):
        yield difference("ops", outside["ops"], left, ", ".join(outside["names"]))
    counted = [eager[name] for name in ("ops", "dispatched") if name in eager]
    if counted and not any(_is_alike(coverage["ops"], each) for each in counted):
        yield difference("ops", eager["ops"], coverage["ops"], "all ops of an eager call")


_CONVERSIONS = ("aten::detach", "aten::lift_fresh")
"""What the code that Dynamo makes calls to hand out a NumPy array that it traced as a tensor (2.13, _dynamo/utils.py:
`to_numpy_helper`), and to make a tensor of a number or an array (torch/__init__.py: `_as_tensor_fullprec`): these are
no ops of the model, and they compute nothing."""


def _is_alike(first: int, second: int) -> bool:
    """Whether two counts of ops agree: a dispatch mode sees a few ops that the profiler does not, as in Tensor.numpy().

    So up to 5 ops, or a fifth of them, are no difference; none against some is one, which is compared apart.
    """
    return abs(first - second) <= max(5, max(first, second) // 5)


def _outlook(truth: Data, two: Data, report: Data) -> Iterator[Data]:
    """Compare ten calls: where they differ from two, ctrace has to say so."""
    ten = truth["last"]
    happened = ten["recompiles"], bool(ten["limit"])
    grows = happened != (two["recompiles"], bool(two["limit"]))
    outlook = report.get("outlook")
    if outlook is None:
        if grows:
            yield difference("outlook", f"{happened[0]} recompiles, limit {happened[1]}", "two calls only")
    elif outlook["calls"] == truth["calls"] and happened != (outlook["recompiles"], outlook["limit_hit"]):
        yield difference("outlook", happened, (outlook["recompiles"], outlook["limit_hit"]))


def same_prints(truth: Data, eager: Data) -> bool:
    """Whether two runs of a case returned the same."""
    pairs = list(zip(truth["prints"], eager["prints"], strict=False))
    return bool(pairs) and all(_is_close(*pair) for pair in pairs)


def _is_close(first: Any, second: Any) -> bool:
    """Whether two lists of shapes and sums are the same within rounding; NaN equals NaN."""
    if _is_tensor(first) and _is_tensor(second) and first[0] == second[0]:
        # A sum of numbers that cancel out has the rounding of what was added.
        rounding = _ROUNDING * max(first[2], second[2])
        return _is_close(first[2], second[2]) and (
            abs(first[1] - second[1]) <= rounding or _is_close(first[1], second[1])
        )
    if number := _converted(first, second):
        return _near(*number)
    if _is_number(first) and _is_number(second):
        return bool(first[0] == second[0])
    if isinstance(first, float) and isinstance(second, float):
        return first == second or first != first != second != second or _near(first, second)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(_is_close(*pair) for pair in zip(first, second, strict=True))
    return bool(first == second)


def _is_tensor(value: Any) -> bool:
    """Whether a list is that of a tensor: its shape, its sum, and the sum of its absolute values."""
    kinds = [type(each) for each in value] if isinstance(value, list) else []
    return kinds == [list, float, float]


def _is_number(value: Any) -> bool:
    """Whether a list is that of a Python number: its type, and its value."""
    return isinstance(value, list) and [type(each) for each in value] == [str, float]


def _converted(was: Any, now: Any) -> tuple[float, float] | None:
    """Return the values of a number that became a tensor without a dimension: advice says to convert it later."""
    if _is_number(was) and _is_tensor(now) and now[0] == []:
        return was[1], now[1]
    return None


def _near(first: float, second: float) -> bool:
    return abs(first - second) <= 1e-3 * max(abs(first), abs(second), 1e-3)


def vector(truth: Data) -> dict[str, int]:
    """Return what an improvement is measured by, after all calls."""
    last = truth["last"]
    outside = max((each["ops"] for each in truth["outside"].values()), default=0)
    return {
        "graphs": last["graphs"],
        "breaks": len(last["sites"]),
        "recompiles": last["recompiles"],
        "limit": len(last["limit"]),
        "outside": outside,
    }


def has_findings(truth: Data) -> bool:
    """Whether anything needs to change: all but a model that compiles whole and stays compiled."""
    last, two = truth["last"], after(truth, 2)
    steady = last["recompiles"] == two["recompiles"] == 0
    return bool(truth["error"] or last["sites"] or last["limit"] or not last["graphs"] or not steady)


def effect(before: Data, now: Data) -> Judgement:
    """Judge a change by ten calls of plain torch before and after it."""
    if not _raises_alike(before, now) and (raised := _by_errors(before, now)) is not None:
        return raised
    was, is_now = vector(before), vector(now)
    if (was["graphs"] > 0) != (is_now["graphs"] > 0):
        return Judgement.IMPROVED if is_now["graphs"] else Judgement.WORSE
    if changes_results(before, now):
        return Judgement.WORSE
    problems = [is_now[each] - was[each] for each in _COUNTED if each != "graphs"]
    if any(each < 0 for each in problems) and not any(each > 0 for each in problems):
        return Judgement.IMPROVED
    if any(each > 0 for each in problems) and not any(each < 0 for each in problems):
        return Judgement.WORSE
    if not any(problems):
        return _of_sign(is_now["graphs"] - was["graphs"])
    fewer = sum(was[each] - is_now[each] for each in ("graphs", "breaks", "recompiles", "limit"))
    if fewer > 0 and is_now["outside"] - was["outside"] > _OPS_OF_ONE * fewer:
        return Judgement.NO_EFFECT
    return _of_sign(-fewer)


def _by_errors(before: Data, now: Data) -> Judgement | None:
    """Judge a change by what raises, or ends early; None: nothing does."""
    if now.get("not_loaded") or now.get("ended") or now.get("error") or "last" not in now:
        if before.get("error"):
            return Judgement.NO_EFFECT
        return Judgement.WORSE
    return Judgement.IMPROVED if before["error"] else None


def _raises_alike(before: Data, now: Data) -> bool:
    """Whether a later call raises the same with a change and without it: then the calls until there are compared."""
    both = [each.get("error") or {} for each in (before, now)]
    first, second = ([each.get(what) for what in ("type", "message", "call")] for each in both)
    return all(both) and first == second and both[0].get("call", 0) >= len(_TWO) and "last" in now


def _of_sign(more: int) -> Judgement:
    if not more:
        return Judgement.NO_EFFECT
    return Judgement.IMPROVED if more < 0 else Judgement.WORSE


def changes_results(before: Data, now: Data) -> bool:
    """Whether a call returns neither what the compiled model did nor what eager does.

    Dynamo draws the numbers of `np.random` from torch's generator (2.13, _dynamo/config.py,
    `use_numpy_random_stream`), so a compiled model may differ from eager, and a better one be like it again.
    Results of a case that reads memory which it never wrote say nothing (`reads_unwritten`).
    """
    if before.get("reads_unwritten"):
        return False  # the results are those of whatever the memory held
    references = [before["prints"], before.get("eager_prints") or before["prints"]]
    return not any(all(_is_close(*pair) for pair in zip(known, now["prints"], strict=False)) for known in references)


def contradictions(report: Data, first: str, options: list[str]) -> list[str]:
    """Return what the first line says against numbers of the same report."""
    found = []
    own = [len(report["graphs"]), len(report["breaks"]), len(report["recompiles"])]
    advice = report["advice"][0] if report["advice"] else None
    wrong = report["breaks"] or report["limit"]["hit"] or report["error"]
    unexpected = [each for each in report["recompiles"] if not each["expected"]]
    if first.startswith("Nothing to fix") and (wrong or unexpected):
        found.append("nothing to fix, beside breaks, recompilations, a limit or an error")
    if advice and advice["effect"] and not report["error"]:
        before = [advice["effect"][each][0] for each in ("graphs", "breaks", "recompiles")]
        if before != own:
            found.append(f"checked from {before}, and the report counts {own}")
    if "dynamic=True" in first and "--dynamic" in options:
        found.append("dynamic=True, which is set")
    return found


def judged(
    before: Data, now: Data | None, report: Data, first: str, options: list[str], *, has_change: bool
) -> tuple[Judgement, str]:
    """Judge the first line; return the judgement and why."""
    if against := contradictions(report, first, options):
        return Judgement.CONTRADICTS, "; ".join(against)
    if first.startswith("Nothing"):
        if not has_findings(before):
            return Judgement.NOTHING, ""
        return _nothing_despite(before, report)
    if not first or _UNKNOWN.search(first):
        if has_findings(before):
            return Judgement.UNKNOWN, ""
        return Judgement.NOTHING, "no advice"
    if not has_change or now is None:
        return Judgement.NOT_CARRIED_OUT, ""
    if now.get("change"):
        return Judgement.NO_EFFECT, "; ".join(now["change"])
    return effect(before, now), _change(before, now)


def _nothing_despite(before: Data, report: Data) -> tuple[Judgement, str]:
    """Judge "nothing to change" where torch counts something: right for expected recompilations that end."""
    last, two = before["last"], after(before, 2)
    settled = last["recompiles"] == two["recompiles"] and not last["limit"] and not last["sites"]
    if settled and last["graphs"] and not before["error"]:
        return Judgement.NOTHING, "its recompilations are expected, and end"
    if not last["graphs"] and not last["sites"] and not (report["coverage"]["ops"] and _computes(before)):
        return Judgement.NOTHING, "nothing to compile"
    return Judgement.NO_EFFECT, "nothing to change is wrong: " + ", ".join(
        f"{k} {v}" for k, v in vector(before).items()
    )


def _computes(truth: Data) -> bool:
    """Whether a call runs an op that computes something: not only views, as of an input that is returned."""
    every = [each for each in truth["outside"].values() if each["ops"]]
    return any(each["ops"] > sum(each["names"].get(name, 0) for name in _VIEWS) for each in every) or not every


_VIEWS = ("aten::alias", "aten::detach", "aten::lift_fresh", "aten::view", "aten::view_as")


def _change(before: Data, now: Data) -> str:
    is_raised = bool(now.get("error")) and not _raises_alike(before, now)
    if now.get("not_loaded") or now.get("ended") or is_raised or "last" not in now:
        why = now.get("not_loaded") or now.get("error") or {"message": now.get("ended")}
        return f"raises: {why.get('type', '')} {str(why.get('message'))[:150]}"
    was, is_now = vector(before), vector(now)
    said = [f"{each} {was[each]} → {is_now[each]}" for each in _COUNTED if was[each] != is_now[each]]
    return ", ".join([*said, *(["changes the results"] if changes_results(before, now) else [])]) or "no count changed"


def change_of(report: Data, first: str, trials: list[Data]) -> Data | None:
    """Return what the first line asks for, as `_truth_oracle.py` carries it out; None if no program can tell.

    `apply` says it. A report without `apply` is read as far as its own data goes: the trial of its log that has the
    counts that the advice says, or a setting that the text names in full.
    """
    advice = report["advice"][0] if report["advice"] else None
    if advice is None:
        return None
    if advice.get("apply"):
        return of_apply(advice["apply"])
    if advice["checked"] and advice["effect"]:
        now = {each: values[1] for each, values in advice["effect"].items()}
        same = [each for each in trials if each["counts"] == now]
        named = [each for each in same if any(f":{edit['line']}:" in first for edit in each["trial"]["edits"])]
        if same:
            return of_trial((named or same)[0]["trial"])
    settings = [f"torch._dynamo.config.{each['name']} = {each['value']}" for each in _CONFIG.finditer(first)]
    dynamic = _DYNAMIC.search(first)
    if not settings and not dynamic:
        return None
    return {"settings": settings, "arguments": {"dynamic": dynamic["value"] == "True"} if dynamic else {}}


def of_apply(apply: Data) -> Data:
    """Translate `advice[].apply`.

    Its `text` is, by `kind`: `setting` statements to run first; `argument` keywords of torch.compile; `patch` a unified
    diff of `file`; `place` the statements to run in place of `model = torch.compile(model)`.
    """
    text = apply["text"]
    match apply["kind"]:
        case "setting":
            return {"settings": [text]}
        case "argument":
            return {"arguments": eval(f"dict({text})", {"__builtins__": {"dict": dict}})}  # numbers, strings and bools
        case "patch":
            return {"patches": [{"file": apply["file"], "text": text}]}
        case "place":
            return {"place": text}
        case other:
            raise ValueError(f"apply has an unknown kind, {other!r}")


def of_trial(trial: Data) -> Data:
    """Translate a trial that ctrace made."""
    return {
        "settings": [f"torch._dynamo.config.{name} = {value}" for name, value in trial["settings"]],
        "arguments": {} if trial["dynamic"] is None else {"dynamic": trial["dynamic"]},
        "lines": trial["edits"],
        "texts": trial.get("sources", []),
        "marked": trial["marked"],
        "grad": trial["grad"],
        "model": [
            *(f"model.{method}({value!r})" for method, value in trial["calls"]),
            *(["model.eval()"] if trial["evaluate"] else []),
        ],
        "ignored": trial["ignored"],
    }
