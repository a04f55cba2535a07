"""An actor-critic policy that samples actions."""

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy

PACKAGES = ("stable-baselines3", "gymnasium", "farama-notifications", "cloudpickle")

torch.manual_seed(0)
model = ActorCriticPolicy(spaces.Box(-1.0, 1.0, (6,)), spaces.Discrete(3), lambda _: 1e-3).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(4, 6),)
