"""Operations: losses, and modules and ways to write them."""

# ruff: noqa: PLW0108, PLC3002 - lambdas keep a case on one line, and `x == x` is one
from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.e2e.operation_case import (
    case,
    fixed,
    integers,
    module,
    positive,
    spread,
    uniform,
)

# ---- losses

labels = fixed(torch.tensor([3, 0, 2, 2, 1]))
ignoring = fixed(torch.tensor([3, -100, 2, 2, 1]))
weights = fixed(torch.tensor([0.5, 1.5, 0.7, 2.0]))
for how in ("mean", "sum", "none"):
    case("cross_entropy", f"plain_{how}", lambda x, y, h=how: F.cross_entropy(x, y, reduction=h), (5, 4), labels)
    case(
        "cross_entropy",
        f"weighted_{how}",
        lambda x, y, w, h=how: F.cross_entropy(x, y, w, reduction=h),
        (5, 4),
        labels,
        weights,
    )
    case(
        "cross_entropy",
        f"smoothed_{how}",
        lambda x, y, h=how: F.cross_entropy(x, y, label_smoothing=0.2, reduction=h),
        (5, 4),
        labels,
    )
    case(
        "cross_entropy",
        f"soft_{how}",
        lambda x, y, h=how: F.cross_entropy(x, y.softmax(1), reduction=h),
        (5, 4),
        (5, 4),
    )
    case("cross_entropy", f"ignored_{how}", lambda x, y, h=how: F.cross_entropy(x, y, reduction=h), (5, 4), ignoring)
    case(
        "cross_entropy",
        f"nll_{how}",
        lambda x, y, w, h=how: F.nll_loss(x.log_softmax(1), y, w, reduction=h),
        (5, 4),
        labels,
        weights,
    )
case(
    "cross_entropy",
    "everything",
    lambda x, y, w: F.cross_entropy(x, y, w, label_smoothing=0.1),
    (5, 4),
    ignoring,
    weights,
)
case("cross_entropy", "ignore_index", lambda x, y: F.cross_entropy(x, y, ignore_index=2), (5, 4), labels)
alone = fixed(torch.full((5,), 2))  # no label counts: the mean is no number, and the scores learn nothing from it
case("cross_entropy", "all_ignored", lambda x, y: x + F.cross_entropy(x, y, ignore_index=2).nan_to_num(), (5, 4), alone)
case(
    "cross_entropy",
    "soft_weighted_smoothed",
    lambda x, y, w: F.cross_entropy(x, y.softmax(1), w, label_smoothing=0.1),
    (5, 4),
    (5, 4),
    weights,
)
many = fixed(torch.tensor([36, 5, 0, 17, 5]))
case("cross_entropy", "many_classes", lambda x, y, w: F.cross_entropy(x, y, w), (5, 37), many, fixed(positive(37)))
case("cross_entropy", "many_ignored", lambda x, y: F.cross_entropy(x, y, ignore_index=5), (5, 37), many)
case("cross_entropy", "single", lambda x, y: F.cross_entropy(x, y), (4,), fixed(torch.tensor(2)))
pixels = integers((2, 3, 2), 4)
case("cross_entropy", "segmentation", lambda x, y, w: F.cross_entropy(x, y, w), (2, 4, 3, 2), pixels, weights)
case(
    "cross_entropy",
    "segmentation_smoothed",
    lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, ignore_index=1),
    (2, 4, 3, 2),
    pixels,
)
case("cross_entropy", "segmentation_none", lambda x, y: F.cross_entropy(x, y, reduction="none"), (2, 4, 3, 2), pixels)
case("cross_entropy", "sequence", lambda x, y: F.cross_entropy(x, y), (2, 4, 5), integers((2, 5), 4))
case(
    "cross_entropy",
    "flattened",
    lambda x, y: F.cross_entropy(x.flatten(0, 1), y.flatten()),
    (2, 5, 4),
    integers((2, 5), 4),
)

pairs: tuple[Any, Any] = (spread(3, 4), fixed(spread(3, 4)))
for how in ("mean", "sum", "none"):
    for name, loss in {
        "mse": F.mse_loss,
        "l1": F.l1_loss,
        "smooth_l1": F.smooth_l1_loss,
        "huber": F.huber_loss,
        "poisson": F.poisson_nll_loss,
        "soft_margin": F.soft_margin_loss,
    }.items():
        case("losses", f"{name}_{how}", lambda x, y, f=loss, h=how: f(x, y, reduction=h), *pairs)
for how in ("batchmean", "sum", "none", "mean"):
    case(
        "losses", f"kl_{how}", lambda x, y, h=how: F.kl_div(x.log_softmax(1), y.softmax(1), reduction=h), (3, 4), (3, 4)
    )
case(
    "losses",
    "kl_log_target",
    lambda x, y: F.kl_div(x.log_softmax(1), y.log_softmax(1), reduction="sum", log_target=True),
    (3, 4),
    (3, 4),
)
for how in ("mean", "sum", "none"):
    case(
        "losses",
        f"bce_{how}",
        lambda x, y, h=how: F.binary_cross_entropy(x.sigmoid(), y, reduction=h),
        (3, 4),
        fixed(uniform((3, 4), 0, 1)),
    )
    case(
        "losses",
        f"bce_logits_{how}",
        lambda x, y, p, h=how: F.binary_cross_entropy_with_logits(x, y, pos_weight=p, reduction=h),
        (3, 4),
        fixed(uniform((3, 4), 0, 1)),
        fixed(positive(4)),
    )
signs = fixed(torch.tensor([1.0, -1.0, -1.0]))
case(
    "losses",
    "bce_weight",
    lambda x, y, w: F.binary_cross_entropy(x.sigmoid(), y, w),
    (3, 4),
    fixed(uniform((3, 4), 0, 1)),
    fixed(positive(3, 4)),
)
case(
    "losses",
    "bce_logits_weight",
    lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, w),
    (3, 4),
    fixed(uniform((3, 4), 0, 1)),
    fixed(positive(4)),
)
case("losses", "smooth_l1_beta", lambda x, y: F.smooth_l1_loss(x, y, beta=0.6), *pairs)
case("losses", "huber_delta", lambda x, y: F.huber_loss(x, y, delta=0.6), *pairs)
case("losses", "hinge_embedding", lambda x, y: F.hinge_embedding_loss(x, y, margin=0.8), spread(3), signs)
case("losses", "cosine_embedding", lambda x, y, s: F.cosine_embedding_loss(x, y, s, margin=0.1), (3, 4), (3, 4), signs)
case("losses", "triplet", lambda x, y, z: F.triplet_margin_loss(x, y, z), (3, 4), (3, 4), (3, 4))
case("losses", "triplet_swap", lambda x, y, z: F.triplet_margin_loss(x, y, z, swap=True, p=3), (3, 4), (3, 4), (3, 4))
case("losses", "triplet_distance", lambda x, y, z: nn.TripletMarginWithDistanceLoss()(x, y, z), (3, 4), (3, 4), (3, 4))
case("losses", "margin_ranking", lambda x, y, s: F.margin_ranking_loss(x, y, s, margin=0.3), (3,), (3,), signs)
case(
    "losses",
    "poisson_full",
    lambda x, y: F.poisson_nll_loss(x, y, log_input=False, full=True),
    positive(3, 4),
    fixed(positive(3, 4)),
)
case("losses", "gaussian", lambda x, y, v: F.gaussian_nll_loss(x, y, v), (3, 4), (3, 4), positive(3, 4))
case(
    "losses",
    "gaussian_full",
    lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=True, reduction="sum"),
    (3, 4),
    (3, 4),
    positive(3, 1),
)
case("losses", "multi_margin", lambda x, y: F.multi_margin_loss(x, y), (5, 4), labels)
case(
    "losses",
    "multi_margin_2",
    lambda x, y, w: F.multi_margin_loss(x, y, p=2, margin=0.7, weight=w, reduction="sum"),
    (5, 4),
    labels,
    weights,
)
case(
    "losses",
    "multilabel_soft_margin",
    lambda x, y: F.multilabel_soft_margin_loss(x, y),
    (3, 4),
    fixed(torch.tensor([[1.0, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0]])),
)
case(
    "losses",
    "multilabel_margin",
    lambda x, y: F.multilabel_margin_loss(x, y),
    (2, 4),
    fixed(torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0]])),
)
case("losses", "mse_both_sides", F.mse_loss, (3, 4), (3, 4))
case("losses", "l1_both_sides", F.l1_loss, (3, 4), (3, 4))
case("losses", "mse_weight", lambda x, y, w: F.mse_loss(x, y, weight=w), (3, 4), (3, 4), fixed(positive(3, 4)))

# ---- modules and ways to write them


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.LayerNorm(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.inner(x)) + x


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(4, 3, bias=False)
        self.decode = nn.Linear(3, 4)
        self.again = nn.Linear(4, 3)
        self.again.weight = self.encode.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.encode(x))
        return F.linear(self.again(self.decode(hidden)), self.encode.weight.t())


class Loose(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.list = nn.ParameterList([nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(3, 1))])
        self.named = nn.ParameterDict({"shift": nn.Parameter(torch.randn(3, 4))})
        self.frozen = nn.Parameter(torch.randn(4), requires_grad=False)
        self.register_buffer("table", torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, p in enumerate(self.list):
            x = x * p + i
        return x * self.scale + self.named["shift"] + self.frozen * self.table


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 6), nn.SiLU(), nn.Linear(6, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = checkpoint(self.inner, x * 1.5, use_reentrant=False)
        return y + x


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Conv2d(3, 3, 3, padding=1) for _ in range(3)])
        self.norms = nn.ModuleDict({str(i): nn.BatchNorm2d(3) for i in range(3)})

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for i, block in enumerate(self.blocks):
            y = F.gelu(self.norms[str(i)](block(x)))
            y += x
            x = y
        return {"features": x, "pooled": x.mean((-1, -2))}


class Squeeze(nn.Module):
    """Squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 2, 1), nn.ReLU6(), nn.Conv2d(2, 4, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.gate(x))


module("modules", "twice", Twice(), (3, 4))
module("modules", "tied", Tied(), (3, 4))
module("modules", "loose", Loose(), (3, 4))
module("modules", "checkpoint", Checkpointed(), (3, 4))
case("modules", "residual", nn.Sequential(nn.Conv2d(2, 3, 1), Residual()), (2, 2, 4, 3))
module("modules", "squeeze", Squeeze(), (2, 4, 3, 5))
module("modules", "identity", nn.Sequential(nn.Identity(), nn.Flatten(), nn.Unflatten(1, (2, 6))), (3, 4, 3))
module("modules", "dropout_eval", nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)).eval(), (2, 4))
case("modules", "no_grad", lambda x: x * torch.no_grad()(torch.exp)(x), (3, 4))
case("modules", "inplace_chain", lambda x: (x + 0).mul_(2).sub_(1).div_(3).sigmoid_(), (3, 4))
case("modules", "augmented", lambda x, y: augmented(x, y), (3, 4), (4,))
case("modules", "same_slope", lambda x, y, z: (x + y) * z, (3, 4), (3, 4), (4,))
case("modules", "same_output", lambda x: (x * 2, (x * 2).t(), x), (3, 4))
case("modules", "one_tensor_often", lambda x: (lambda y: (y, y.t(), y.view(-1), y))(x.exp()), (3, 4))
case("modules", "product_shown_twice", lambda x, y: (lambda z: (z, z.t() * 2))(x @ y), (3, 4), (4, 5))
case("modules", "unused", lambda x, y: x * 2, (3,), (4,))
case("modules", "scan", lambda x, w: scanned(x, w), (5, 2, 3), (3, 3))
case("modules", "straight_through", lambda x: x + (x.round() - x).detach(), spread(3, 4))
module("modules", "cosine_module", nn.CosineSimilarity(1), (3, 4), (3, 4))
module("modules", "distance_module", nn.PairwiseDistance(p=3), (3, 4), (3, 4))
module("modules", "channel_dropout_eval", nn.Dropout2d(0.3).eval(), (2, 3, 2, 2))


def augmented(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x.clone()
    z += y
    z *= 2
    z -= x
    z /= 3
    return z


def scanned(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = torch.zeros(2, 3)
    states = []
    for step in x:
        h = torch.tanh(step + h @ w)
        states.append(h)
    return torch.stack(states)


def masked(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[x > 0.5] = 0.25
    y[:, x[0, :, 0] < 0] = x[0, 0].detach() * 3  # one row for all that the mask selects
    return y


case("indices", "mask_assign", masked, (3, 4, 6))
