"""Bytes as text: the one place that chooses their unit."""


def memory(size: int) -> str:
    """Write bytes as `512 B`, `4.0 KiB`, `1.5 GiB`."""
    value, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1023.95 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{size} B" if units[0] == "B" else f"{value:.1f} {units[0]}"
