"""The ELBO of a small model."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import Trace_ELBO

PACKAGES = ("pyro-ppl", "pyro-api", "opt-einsum")

pyro.enable_validation(False)


def generative(data):
    loc = pyro.sample("loc", dist.Normal(0.0, 1.0))
    with pyro.plate("data", data.shape[0]):
        pyro.sample("obs", dist.Normal(loc, 1.0), obs=data)


def guide(data):
    loc = pyro.param("guide_loc", torch.tensor(0.0))
    pyro.sample("loc", dist.Normal(loc, 1.0))


elbo = Trace_ELBO()


def model(data):
    return elbo.differentiable_loss(generative, guide, data)


def inputs():
    pyro.clear_param_store()
    torch.manual_seed(1)
    return (torch.rand(8),)
