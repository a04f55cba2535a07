"""Sentences about applying, tuning and editing kernel packages."""

from ctrace.inspector.features.workshop.kernel_package import speed
from ctrace.inspector.features.workshop.package_model import (
    AppliedPackage,
    CheckedPackage,
    Element,
    Times,
)
from ctrace.reports import format as fmt

_RAN = {"gpu": "", "cpu": "", "interpreter": " in Triton's interpreter"}


def applied_line(found: AppliedPackage) -> str:
    """Return the answer of `ctrace kernels apply` in one line."""
    applied = sum(each.applied for each in found.places)
    parts = [f"applied {applied} of {fmt.count(len(found.places), 'place')}"]
    if found.equal is None:
        parts.append("nothing to compare")
    elif found.equal:
        parts.append(f"equal within {tolerance(found.largest)}")
    else:
        parts.append("NOT EQUAL")
    parts += _times(found)
    return ", ".join(parts)


def _times(found: AppliedPackage) -> list[str]:
    if found.model is None and found.kernel is None:
        return ["times not measured"]
    kernel = f"kernel {fmt.known(found.kernel, between, 'not measured')}"
    if found.model is None:
        return [kernel, "model not measured"]
    if found.model.verdict == "undecided":
        # Calls that wait for a busy core take hundreds of times as long: then the medians are not the model's, either.
        return [kernel, "model not measured: its rounds differ too much"]
    return [kernel, f"model {between(found.model)}"]


def between(times: Times) -> str:
    """Return two durations in the unit of the larger, and what they mean, such as `1.31 -> 1.27 ms (1.03x faster)`."""
    units = (("s", 1.0), ("ms", 1e3), ("us", 1e6))
    unit, scale = next((each for each in units if max(times.before, times.after) * each[1] >= 1), units[-1])
    return f"{times.before * scale:.3g} -> {times.after * scale:.3g} {unit}{_means(times)}"


def _means(times: Times) -> str:
    """Say which is faster, if the rounds decide it; else only how the two durations compare."""
    if times.before <= 0 or times.after <= 0:
        return ""
    match times.verdict:
        case "no_difference":
            return " (within the noise)"
        case "faster":
            return f" ({times.before / times.after:.2f}x faster)"
        case "slower":
            return f" ({times.after / times.before:.2f}x slower)"
    return f" ({times.after / times.before:.2f} times as long)"


def difference(largest: float | None, *, none: str = "not finite") -> str:
    """Say by how much results differ; `none` is what is said without a number."""
    if largest is None:
        return none
    if largest:
        return f"differs by at most {largest:.1e} of the tensor's largest value"
    return "no difference"


def tolerance(largest: float | None) -> str:
    """Return the power of ten that a difference is below, such as `1e-06`."""
    if not largest:
        return "0"
    if largest >= 1:
        return f"{largest:.0e}"
    return _above(largest)


def _above(value: float) -> str:
    power = 1.0
    while power / 10 >= value and power > 1e-12:
        power /= 10
    return f"{power:.0e}".replace("e-0", "e-")


def element(wrong: Element) -> str:
    """Return the first value that differs, with its coordinates."""
    at = fmt.framed("[", ", ".join(map(str, wrong.at)), "]")
    many = f"; {wrong.differing:,} of {fmt.count(wrong.of, 'value')} differ" if wrong.of > 1 else ""
    found, expected = fmt.one_line(wrong.found, 40), fmt.one_line(wrong.expected, 40)
    return f"{fmt.one_line(wrong.tensor, 80)}{at} is {found}, expected {expected}{many}"


def check_line(before: CheckedPackage | None, found: CheckedPackage) -> str:
    """Say whether the kernel is right and whether it became faster."""
    wrong = [each for each in found.checks if not each.equal]
    if wrong:
        each = wrong[0]
        what = element(each.wrong) if each.wrong is not None else each.note or "the results differ"
        special = "".join(f", {fmt.one_line(text, 60)}" for text in (each.inputs, each.configuration) if text)
        verdict = "NOT CORRECT" if each.kernel == "unended" else "WRONG"
        return f"{verdict} for {fmt.one_line(each.sizes, 80)}{special}: {what}"
    if not found.checks:
        return "nothing was checked: the package defines no operator"
    # A fallback runs the operator's CPU code, which proves nothing about the kernel.
    ran = [each for each in found.checks if each.kernel != "fallback"]
    sizes = {each.sizes for each in ran}
    not_run = [each for each in found.checks if each.kernel == "fallback" and each.sizes not in sizes]
    notes = sorted({each.note for each in not_run if each.note})
    why = fmt.one_line("; ".join(notes), 200)
    if not ran:
        return f"NOT CHECKED, the kernel was not run: {why or 'reason not known'}"
    largest = max(each.largest or 0.0 for each in ran)
    left = fmt.count(len({each.sizes for each in not_run}), "other")
    rest = f", not run for {left} ({why})" if not_run else ""
    kinds = {each.kernel for each in ran}
    how = " on the GPU and in Triton's interpreter" if len(kinds) > 1 else _RAN[ran[0].kernel]
    configurations = {each.configuration for each in ran if each.configuration}
    tried = fmt.some(len(configurations), "configuration")
    counts = fmt.joined(", ", fmt.count(len(sizes), "size"), tried, fmt.count(len(ran), "set"))
    compared = f"{counts} of inputs{how}{rest}"
    return f"correct within {tolerance(largest)} for {compared}, {speed(before, found)}"
