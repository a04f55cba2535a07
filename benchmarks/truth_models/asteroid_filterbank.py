"""A learned filterbank and back."""

import torch
from asteroid_filterbanks import Decoder, Encoder, FreeFB

PACKAGES = ("asteroid-filterbanks",)


class Through(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(FreeFB(n_filters=16, kernel_size=8, stride=4))
        self.decoder = Decoder(FreeFB(n_filters=16, kernel_size=8, stride=4))

    def forward(self, x):
        return self.decoder(self.encoder(x).relu())


torch.manual_seed(0)
model = Through().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(2, 1, 64),)
