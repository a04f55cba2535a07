"""Find out who owns a file: the user, a library, or torch."""

import re
from collections.abc import Mapping, Sequence

from ctrace.inspector.facts.findings import Frame, Owner

# For a log that only torch wrote: it does not name the folders of torch and of libraries.
_TORCH = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]|^<(?:eval_with_key|torch_package)")
_LIBRARY = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3\.\d+[/\\]|^<frozen |^<string>|^<__array_function"
)


def owner_of(file: str, prefixes: Mapping[str, str]) -> Owner:
    """Return the owner of the longest known path that is or contains the file; otherwise judge by the file's path."""
    known = [prefix for prefix in prefixes if file == prefix or file.startswith((f"{prefix}/", f"{prefix}\\"))]
    if known:
        # The longest, since an environment may lie in the user's project, and torch's folder lies in the environment.
        return Owner(prefixes[max(known, key=len)])
    if _TORCH.search(file):
        return Owner.TORCH
    if _LIBRARY.search(file):
        return Owner.LIBRARY
    return Owner.USER


def user_frame(stack: Sequence[Frame], prefixes: Mapping[str, str]) -> Frame | None:
    """Find the innermost frame of the user's code; return None if there is none."""
    return next((frame for frame in reversed(stack) if owner_of(frame.file, prefixes) is Owner.USER), None)


def user_frame_or_last(stack: Sequence[Frame], prefixes: Mapping[str, str]) -> Frame:
    """Find the innermost frame of the user's code; in a stack without one, return the innermost frame."""
    return user_frame(stack, prefixes) or stack[-1]


def frame_outside_torch(stack: Sequence[Frame], prefixes: Mapping[str, str], home: str = "") -> Frame:
    """Find the innermost frame that is neither torch's nor in the folder `home`, else return the innermost frame.

    Dynamo traces some calls, such as that of a class, through polyfills of torch, which are no place of a break. A text
    that Python runs with `-c` has no lines to show, and only starts the program.
    """
    starting = ("<string>", *filter(None, [home]))
    inwards = (frame for frame in reversed(stack) if not frame.file.startswith(starting))
    return next((frame for frame in inwards if owner_of(frame.file, prefixes) is not Owner.TORCH), stack[-1])
