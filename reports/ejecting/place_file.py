"""Write `place.py`: the region as data, and what finds and replaces it in graphs that torch.compile makes."""

from ctrace.inspector.features.workshop.ejecting.package import Package
from ctrace.inspector.features.workshop.ejecting.region import Tensor
from ctrace.reports.ejecting.op_file import NAMESPACE
from ctrace.reports.ejecting.texts import text


def place_file(package: Package) -> str:
    """Write the matcher with its pattern."""
    inputs = [f"    {each.name!r}: (torch.{each.dtype}, {_shape(package, each)})," for each in package.region.inputs]
    outputs = [f"    {each.name!r}: {_shape(package, each)}," for each in package.region.outputs]
    sizes = [f"{each.name!r}: {_place(each.source)}" for each in package.sizes]
    fields = {
        "NAME": package.name,
        "NAMESPACE": NAMESPACE,
        "INPUTS": "\n".join(["{", *inputs, "}"]),
        "SIZES": f"{{{', '.join(sizes)}}}",
        "OUTPUTS": "\n".join(["{", *outputs, "}"]),
        "STEPS": "\n".join(f"    {each}," for each in package.definition.pattern),
    }
    written = text("place")
    for name, value in fields.items():
        written = written.replace(f"${name}$", value)
    return written


def _shape(package: Package, tensor: Tensor) -> str:
    return f"({''.join(f'{_size(package, size)}, ' for size in tensor.shape)})"


def _size(package: Package, size: str) -> str:
    written = package.text(size)
    return written if written.isdigit() else repr(written)


def _place(source: str) -> str:
    if not source:
        return "None"
    name, _, rest = source.partition(".shape[")
    return f"({name!r}, {rest.rstrip(']')})"
