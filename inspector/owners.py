"""Who owns a file: the user, a library, or torch."""

import re
from collections.abc import Mapping

from ctrace.inspector.findings import Owner

# For a log that torch alone wrote, which does not say where its folders are.
_TORCH = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]|^<(?:eval_with_key|torch_package)")
_LIBRARY = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3\.\d+[/\\]|^<frozen |^<string>|^<__array_function"
)


def owner_of(file: str, prefixes: Mapping[str, str]) -> Owner:
    """Decide by the longest known path that is or holds the file, else by how its path looks."""
    known = [prefix for prefix in prefixes if file == prefix or file.startswith((f"{prefix}/", f"{prefix}\\"))]
    if known:
        return Owner(prefixes[max(known, key=len)])
    if _TORCH.search(file):
        return Owner.TORCH
    return Owner.LIBRARY if _LIBRARY.search(file) else Owner.USER
