"""A probabilistic actor on a tensordict."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.modules import MLP, NormalParamExtractor, ProbabilisticActor, TanhNormal

PACKAGES = ("torchrl", "tensordict")

torch.manual_seed(0)
net = torch.nn.Sequential(MLP(in_features=4, out_features=4, num_cells=[16]), NormalParamExtractor())
module = TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"])
model = ProbabilisticActor(module=module, in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True)


def inputs():
    torch.manual_seed(1)
    return (TensorDict({"observation": torch.rand(3, 4)}, batch_size=[3]),)
