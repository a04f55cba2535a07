"""CLIP with small towers."""

from _truth_foreign import stub

stub("torchvision")

import open_clip  # noqa: E402
import torch  # noqa: E402

PACKAGES = ("open-clip-torch", "ftfy", "timm")

torch.manual_seed(0)
vision = {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8}
text = {"context_length": 16, "vocab_size": 100, "width": 64, "heads": 2, "layers": 2}
model = open_clip.CLIP(64, vision, text).eval()


def inputs():
    torch.manual_seed(1)
    return torch.rand(2, 3, 32, 32), torch.randint(0, 100, (2, 16))
