"""What `ctrace doctor` says of versions, by simulation."""

import pytest

from ctrace.inspector import self_check


@pytest.mark.parametrize(
    ("triton", "said"),
    [("3.7.1", "3.7.1"), ("3.9.0", "3.9.0; this torch is released with 3.7.1, which may generate other machine code")],
)
def test_another_triton_than_torchs_is_named(monkeypatch: pytest.MonkeyPatch, triton: str, said: str):
    monkeypatch.setattr(self_check, "torch_version", lambda: "2.13.0+cpu")
    monkeypatch.setattr("importlib.metadata.version", {"triton": triton}.__getitem__)
    found = self_check._triton()
    assert (found.ok, found.found) == (True, said)
