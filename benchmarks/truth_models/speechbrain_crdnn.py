"""An acoustic model."""

from _truth_foreign import stub

stub("torchaudio")

import torch  # noqa: E402
from speechbrain.lobes.models.CRDNN import CRDNN  # noqa: E402

PACKAGES = ("speechbrain", "hyperpyyaml")

torch.manual_seed(0)
model = CRDNN(
    input_shape=(2, 20, 16), cnn_blocks=1, cnn_channels=(8,), rnn_layers=1, rnn_neurons=16, dnn_blocks=1, dnn_neurons=16
).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(2, 20, 16),)
