"""Ops of torch that must not see what `torch.where` does not select.

`torch.where` computes both sides, and a backward pass multiplies the gradient of the side that is not selected by zero:
zero times infinity is NaN. So such an op gets ones there: `h.log()` becomes `torch.where(c, h, 1).log()`.
"""

from ctrace.inspector.knowledge.counting import words

STEEP = words("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal square pow")
"""Ops of one tensor whose derivative may be infinite or overflow, and is finite at one."""
DRAWING = words(
    """
    rand randn randint randperm rand_like randn_like randint_like bernoulli multinomial normal poisson dropout
    alpha_dropout feature_dropout uniform_ normal_ exponential_ random_ bernoulli_
    """
)
"""Ops that draw random numbers: computing a side that Python would skip changes all numbers after it."""
