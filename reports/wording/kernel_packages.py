"""Sentences about applying, tuning and editing kernel packages."""

from ctrace.inspector.features.workshop.kernel_packages.package_model import AppliedPackage, Element, Times
from ctrace.reports import format as fmt
from ctrace.reports.wording.durations import duration


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
    kernel = "kernel not measured" if found.kernel is None else f"kernel {between(found.kernel)}"
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
    return f"differs by at most {largest:.1e} of the tensor's largest value" if largest else "no difference"


def tolerance(largest: float | None) -> str:
    """Return the power of ten that a difference is below, such as `1e-06`."""
    if not largest:
        return "0"
    return f"{largest:.0e}" if largest >= 1 else _above(largest)


def _above(value: float) -> str:
    power = 1.0
    while power / 10 >= value and power > 1e-12:
        power /= 10
    return f"{power:.0e}".replace("e-0", "e-")


def element(wrong: Element) -> str:
    """Return the first value that differs, with its coordinates."""
    at = f"[{', '.join(map(str, wrong.at))}]" if wrong.at else ""
    many = f"; {wrong.differing:,} of {fmt.count(wrong.of, 'value')} differ" if wrong.of > 1 else ""
    found, expected = fmt.one_line(wrong.found, 40), fmt.one_line(wrong.expected, 40)
    return f"{fmt.one_line(wrong.tensor, 80)}{at} is {found}, expected {expected}{many}"


def seconds(value: float | None) -> str:
    """Return a time, or that there is none."""
    return "not measured" if value is None else duration(value)
