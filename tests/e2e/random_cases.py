"""What draws random numbers in forward, as cases of the table of operations."""

from __future__ import annotations

import torch
from torch import distributions, nn
from torch.nn import functional as F

from tests.e2e.operation_cases import case, cases, module, spread

cases(
    "random",
    {
        "rand": lambda x: x * torch.rand(3, 4) + torch.rand_like(x),
        "randn": lambda x: x * torch.randn(3, 4) + torch.randn_like(x),
        "uniform": lambda x: x * torch.empty(4).uniform_(-1, 2),
        "normal": lambda x: x + x.new_empty(3, 1).normal_(0.5, 2.0) + torch.normal(torch.zeros(4), torch.arange(4.0)),
        "exponential": lambda x: x * torch.empty_like(x).exponential_(2.0),
        "log_normal": lambda x: x * torch.empty(3, 4).log_normal_(0, 0.5),
        "cauchy": lambda x: x * torch.empty(3, 4).cauchy_(0.5, 2.0).clamp(-3, 3),
        "geometric": lambda x: x * torch.empty(3, 4).geometric_(0.3),
        "bernoulli": lambda x: x * torch.bernoulli(torch.sigmoid(x.detach())) + torch.empty(3, 1).bernoulli_(0.6),
        "bernoulli_each": lambda x: x * torch.empty(3, 4).bernoulli_(torch.tensor([0.1, 0.4, 0.7, 0.9])),
        "randint": lambda x: x * torch.randint(-3, 9, (3, 4)) + torch.randint(5, ()) + torch.randint_like(x, 2, 900000),
        "random": lambda x: x * torch.empty(3, 4).random_(2, 7) + torch.zeros(4, dtype=torch.int32).random_(99),
        "randperm": lambda x: x[:, torch.randperm(4)],
        "multinomial": lambda x: x.gather(1, torch.multinomial(x.detach().exp(), 3)),
        "multinomial_again": lambda x: x.gather(1, torch.multinomial(x.detach().exp(), 6, replacement=True)),
        "gumbel": lambda x: F.gumbel_softmax(x, tau=0.7),
        "gumbel_hard": lambda x: F.gumbel_softmax(x, hard=True),
        "drop_path": lambda x: x.div(0.8) * (0.8 + torch.rand(3, 1)).floor_(),
        "own_generator": lambda x: x * torch.rand(3, 4, generator=torch.Generator().manual_seed(3)),
        "reparametrised": lambda x: distributions.Normal(x, x.exp()).rsample(),
        "relaxed": lambda x: distributions.RelaxedOneHotCategorical(torch.tensor(0.5), logits=x).rsample(),
        "sampled": lambda x: x * distributions.Bernoulli(logits=x.detach()).sample(),
    },
    (3, 4),
)
case("random", "rrelu", lambda x: F.rrelu(x, 0.1, 0.4, training=True), spread(3, 5))
case("random", "rrelu_inplace", lambda x: F.rrelu(x * 2, training=True, inplace=True), spread(3, 5))
module("random", "feature_alpha_dropout", nn.FeatureAlphaDropout(0.4), (3, 4, 2))
case("random", "fractional", lambda x: F.fractional_max_pool2d(x, (2, 3), (3, 4), return_indices=True), (2, 3, 7, 9))
module("random", "fractional_volume", nn.FractionalMaxPool3d(2, output_ratio=0.6), (2, 5, 6, 7))
