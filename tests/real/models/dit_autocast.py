"""A diffusion transformer's block, called inside and outside autocast."""

import torch


class Block(torch.nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width, elementwise_affine=False)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.modulate = torch.nn.Linear(width, 2 * width)

    def forward(self, x, t):
        shift, scale = self.modulate(torch.nn.functional.silu(t)).chunk(2, -1)
        h = self.norm(x) * (1 + scale[:, None]) + shift[:, None]
        q, k, v = self.qkv(h).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        h = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(h.transpose(1, 2).flatten(2))


def model():
    torch.manual_seed(0)
    return Denoiser().eval()


class Denoiser(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x, t, half):
        if half:
            with torch.autocast("cpu", torch.bfloat16):
                return self.block(x, t)
        return self.block(x, t)


def inputs():
    return torch.rand(2, 4, 16), torch.rand(2, 16), True


scenarios = {"last step": lambda: (*inputs()[:2], False)}
