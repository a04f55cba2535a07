"""Raises in its second scenario, after a graph was compiled."""

import torch


class Checked(torch.nn.Module):
    """Refuses batches of three."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.size(0) == 3:
            raise ValueError("batches of three are not supported")
        return torch.relu(x) * 2


model = Checked()


def inputs() -> tuple[torch.Tensor]:
    return (torch.rand(2, 8),)


scenarios = {"three": lambda: (torch.rand(3, 8),)}
