"""Guards are compared without what differs between two copies of a file."""

import pytest

from ctrace.inspector.features.compare.diff.guards import without_module


@pytest.mark.parametrize(
    ("code", "file", "found"),
    [
        ("f(L['self'], 7), type=<class 'net.Net'>", "src/net.py", "f(L['self'], 7), type=<class 'Net'>"),
        ("f(L['self'], 7), type=<class 'pkg.net.Net'>", "src/pkg/net.py", "f(L['self'], 7), type=<class 'Net'>"),
        ("type=<class 'net.Net'>", "net_2.py", "type=<class 'net.Net'>"),
        (
            "type=<class 'torch.nn.modules.linear.Linear'>",
            "linear_2.py",
            "type=<class 'torch.nn.modules.linear.Linear'>",
        ),
        ("type=<class 'timm.net.Net'>", "src/mylib/net.py", "type=<class 'timm.net.Net'>"),
        ("G['net.Net']", "net.py", "G['net.Net']"),
    ],
)
def test_class_of_the_functions_own_file_has_no_module(code: str, file: str, found: str) -> None:
    assert without_module(code, file) == found
