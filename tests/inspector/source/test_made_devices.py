"""What a change combines with tensors that code makes on the CPU."""

import pytest

from ctrace.inspector.source.made_devices import made_on_cpu

HEAD = "import torch\n\ndef f(self, x, n):\n"


def asked(before: str, after: str, above: str = "") -> tuple[str, ...]:
    lines = [f"    {each}\n" for each in above.splitlines()]
    body = "".join(lines)
    return made_on_cpu(HEAD + body + f"    {before}\n    return y\n", HEAD + body + f"    {after}\n    return y\n")


@pytest.mark.parametrize(
    ("above", "before", "after", "name"),
    [
        ("p = torch.arange(n).float()", "y = p * self.rate.item()", "y = p * self.rate.detach()", "p"),
        ("p = torch.zeros(n, 3)\nq = p + 1", "y = q * self.rate.item()", "y = q * self.rate.detach()", "q"),
        ("p = torch.arange(n)", "p = p * self.rate.item()", "p = p * self.rate.detach()", "p"),
        ("", "y = x if x.sum() > 0 else torch.zeros(3)", "y = torch.where(x.sum() > 0, x, torch.zeros(3))", "torch.zeros(3)"),
    ],
)  # fmt: skip
def test_a_tensor_of_the_cpu_is_asked_about(above: str, before: str, after: str, name: str):
    (question,) = asked(before, after, above)
    assert f"`{name}`" in question


@pytest.mark.parametrize(
    "above",
    [
        "p = torch.arange(n, device=x.device)", "p = torch.arange(n).to(x.device)", "p = torch.zeros(())",
        "p = torch.tensor(0.5)", "p = torch.zeros_like(x)", "p = x.new_zeros(3)", "p = x + 1",
    ],
)  # fmt: skip
def test_what_may_be_combined_is_not(above: str):
    assert asked("y = p * self.rate.item()", "y = p * self.rate.detach()", above) == ()


def test_lines_that_do_not_change_are_not_read():
    assert asked("y = x * self.rate.item()", "y = x * self.rate.detach()", "p = torch.arange(n) * x") == ()
