"""A segmentation loss, called as a loss is."""

from _truth_foreign import stub

stub("torchvision")

import segmentation_models_pytorch as smp  # noqa: E402
import torch  # noqa: E402

PACKAGES = ("segmentation-models-pytorch", "timm")

model = smp.losses.DiceLoss("multiclass", from_logits=True)


def inputs():
    torch.manual_seed(1)
    return torch.rand(2, 3, 8, 8), torch.randint(0, 3, (2, 8, 8))
