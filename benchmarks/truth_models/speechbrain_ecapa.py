"""A speaker encoder that gets lengths."""

from _truth_foreign import stub

stub("torchaudio")

import torch  # noqa: E402
from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN  # noqa: E402

PACKAGES = ("speechbrain", "hyperpyyaml")

torch.manual_seed(0)
model = ECAPA_TDNN(16, channels=[16, 16, 16, 16, 48], attention_channels=8, lin_neurons=8).eval()


def inputs():
    torch.manual_seed(1)
    return torch.rand(2, 30, 16), torch.tensor([1.0, 0.5])
