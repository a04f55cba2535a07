"""A spiking network over time steps."""

import snntorch
import torch

PACKAGES = ("snntorch",)


class Spiking(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)
        self.neuron = snntorch.Leaky(beta=0.9)

    def forward(self, x):
        potential = self.neuron.reset_mem()
        spikes = []
        for step in range(x.size(0)):
            spike, potential = self.neuron(self.linear(x[step]), potential)
            spikes.append(spike)
        return torch.stack(spikes)


torch.manual_seed(0)
model = Spiking().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(5, 2, 8),)
