"""Write durations and factors with three digits."""


def duration(seconds: float | None) -> str:
    """Write a time with three digits: `12.3 µs`, `0.82 ms` is `820 µs`, `1.15 ms`, `2.10 s`."""
    if seconds is None:
        return "not measured"
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if abs(seconds) < limit * 0.9995:
            return f"{digits(seconds * factor)} {unit}"
    return f"{digits(seconds)} s"


def digits(value: float) -> str:
    """Write a number below 1000 with three digits."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}"


def times(ratio: float) -> str:
    """Write a factor: `1.42x`, `12.3x`."""
    return f"{digits(ratio)}x"
