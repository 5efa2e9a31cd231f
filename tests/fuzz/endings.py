"""How a random network ends: its head and its loss, what is frozen, and the optimizer."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.step import Shape, flag

# affine weights start at one and zero, where mistakes hide
SHAKE = (
    "with torch.no_grad():",
    "    for p in model.parameters():",
    "        p.add_(torch.randn_like(p) * 0.1)",
)
OPTIMIZERS = (
    "SGD({}, lr=0.03)",
    "SGD({}, lr=0.02, momentum=0.9, weight_decay=1e-3)",
    "SGD({}, lr=0.02, momentum=0.8, nesterov=True)",
    "SGD({}, lr=0.02, momentum=0.8, dampening=0.3, maximize=True)",
    "Adam({}, lr=2e-3)",
    "Adam({}, lr=2e-3, weight_decay=0.01, amsgrad=True)",
    "AdamW({}, lr=1e-3)",
    "RMSprop({}, lr=1e-3, momentum=0.5, centered=True)",
    "RMSprop({}, lr=1e-3)",
    "Adagrad({}, lr=0.01, lr_decay=0.1)",
    "Adadelta({}, lr=0.5)",
    "Adamax({}, lr=2e-3)",
    "NAdam({}, lr=2e-3)",
    "RAdam({}, lr=2e-3)",
    "ASGD({}, lr=0.01)",
    "Rprop({}, lr=1e-3)",
)


@dataclass(frozen=True)
class Ending:
    make: tuple[str, ...]
    call: tuple[str, ...]
    after: tuple[str, ...]
    target: str


@dataclass(frozen=True)
class Head:
    """What comes after the last step, the loss on it, and the expression of a target."""

    make: tuple[str, ...]
    out: str
    loss: str
    target: str


def classifier(rng: random.Random, shape: Shape) -> Head:
    classes = rng.randint(2, 10)
    features = {2: shape[-1], 3: shape[-1], 4: shape[1]}[len(shape)]
    rows = {2: "x", 3: rng.choice(("x.mean(1)", "x[:, -1]")), 4: "x.mean((2, 3))"}[len(shape)]
    loss = rng.choice(
        (
            "nn.CrossEntropyLoss()",
            "nn.CrossEntropyLoss(label_smoothing=0.1)",
            f"nn.CrossEntropyLoss(weight=torch.rand({classes}) + 0.5)",
            "nn.CrossEntropyLoss(reduction='sum')",
            "nn.MultiMarginLoss()",
            "lambda y, t: (-(1 - y.softmax(1)).square() * y.log_softmax(1)).gather(1, t[:, None]).mean()",
        )
    )
    return Head(
        (f"self.head = nn.Linear({features}, {classes})",),
        f"self.head({rows})",
        loss,
        f"torch.randint({classes}, ({shape[0]},))",
    )


def flat_classifier(rng: random.Random, shape: Shape) -> Head:
    classes = rng.randint(2, 10)
    features = 1
    for extent in shape[1:]:
        features *= extent
    return Head(
        (f"self.head = nn.Linear({features}, {classes})",),
        "F.log_softmax(self.head(x.flatten(1)), 1)",
        "nn.NLLLoss()",
        f"torch.randint({classes}, ({shape[0]},))",
    )


def segmentation(rng: random.Random, shape: Shape) -> Head:
    """A class for every position; dimension 1 holds the scores."""
    if shape[1] < 2:
        return regression(rng, shape)
    loss = rng.choice(("nn.CrossEntropyLoss()", "nn.CrossEntropyLoss(ignore_index=0)"))
    least = 0 if shape[0] * math.prod(shape[2:]) > 12 else 1  # the mean over no position is NaN
    return Head((), "x", loss, f"torch.randint({least}, {shape[1]}, {(shape[0], *shape[2:])})")


def regression(rng: random.Random, shape: Shape) -> Head:
    loss = rng.choice(
        (
            "nn.MSELoss()",
            "nn.MSELoss(reduction='sum')",
            "nn.L1Loss()",
            "nn.SmoothL1Loss(beta=0.6)",
            "nn.HuberLoss(delta=0.7)",
            "nn.BCEWithLogitsLoss()",
            "nn.PoissonNLLLoss()",
            "nn.SoftMarginLoss()",
            "nn.MultiLabelSoftMarginLoss()",
            "nn.HingeEmbeddingLoss(0.8)",
            "lambda y, t: (y - t).abs().add(0.1).pow(1.5).mean()",
            "lambda y, t: torch.log(torch.cosh(y - t) + 0.1).mean()",
            "lambda y, t: 1 - F.cosine_similarity(y.flatten(1), t.flatten(1)).mean()",
            "lambda y, t: F.gaussian_nll_loss(y, t, F.softplus(y) + 0.2)",
            "lambda y, t: F.triplet_margin_loss(y.flatten(1), t.flatten(1), t.flatten(1).flip(1))",
        )
    )
    targets = {
        "BCE": f"torch.rand{shape}",
        "Poi": f"torch.rand{shape}",
        "Mul": f"torch.randint(0, 2, {shape}).float()",
        "Hin": f"torch.randint(0, 2, {shape}) * 2.0 - 1",
        "Sof": f"torch.randint(0, 2, {shape}) * 2.0 - 1",
    }
    return Head((), "x", loss, targets.get(loss[3:6], f"torch.randn{shape}"))


def soft_labels(rng: random.Random, shape: Shape) -> Head:
    """Probabilities of several classes as the target, and rates between zero and one."""
    if flag(rng):
        return Head((), "torch.sigmoid(x)", "nn.BCELoss()", f"torch.rand{shape}")
    return Head((), "x", "nn.CrossEntropyLoss(label_smoothing=0.05)", f"F.softmax(torch.randn{shape}, 1)")


def vocabulary(rng: random.Random, shape: Shape) -> Head:
    """The next token, by the matrix of the embedding. A norm of one or two features has no gradient but noise."""
    if len(shape) != 3 or shape[2] < 3:
        return classifier(rng, shape)
    make = (f"self.norm = nn.LayerNorm({shape[2]})", f"self.words = nn.Embedding(11, {shape[2]})")
    call = "F.linear(self.norm(x), self.words.weight).transpose(1, 2)"
    return Head(make, call, "nn.CrossEntropyLoss()", f"torch.randint(11, {shape[:2]})")


def divergence(rng: random.Random, shape: Shape) -> Head:
    return Head((), "F.log_softmax(x, 1)", "nn.KLDivLoss(reduction='batchmean')", f"F.softmax(torch.randn{shape}, 1)")


def plain_regression(shape: Shape) -> Head:
    return Head((), "x", "nn.MSELoss()", f"torch.randn{shape}")


HEADS = (
    classifier,
    classifier,
    classifier,
    flat_classifier,
    segmentation,
    regression,
    regression,
    divergence,
    soft_labels,
    vocabulary,
)


def ending(
    make_rng: Callable[[object], random.Random], plain: frozenset[str], shape: Shape, calls: list[str], trained: bool
) -> Ending:
    """A network without parameters so far (`trained`) gets a head that has some."""
    rng = make_rng("ending")
    kind, several = rng.choice(HEADS), rng.random() < 0.2 and "outputs" not in plain
    if not trained:
        kind = flat_classifier
    head = plain_regression(shape) if trained and "loss" in plain else kind(make_rng("head"), shape)
    call = [f"return {head.out}"]
    after = [f"loss = {head.loss}"]
    if several and calls:
        call = [rng.choice((f"return {head.out}, x", f"return [{head.out}, torch.tanh(x)]"))]
        after = [
            f"criterion = {head.loss}",
            "",
            "",
            "def loss(output, target):",
            "    return criterion(output[0], target) + 0.1 * output[1].square().mean()",
            "",
            "",
        ]
    after += optimizer(make_rng("optimizer"), plain)
    return Ending(head.make, tuple(call), tuple(after), head.target)


def optimizer(rng: random.Random, plain: frozenset[str]) -> list[str]:
    chosen, grouped, clipped = rng.choice(OPTIMIZERS), rng.random() < 0.15, rng.random() < 0.15
    if "optimizer" in plain:
        chosen = OPTIMIZERS[0]
    lines = ["parameters = [p for p in model.parameters() if p.requires_grad]"]
    parameters = "parameters"
    if grouped and "groups" not in plain:
        parameters = "[{'params': parameters[::2]}, {'params': parameters[1::2], 'lr': 0.004}]"
    lines.append(f"optimizer = torch.optim.{chosen.format(parameters)}")
    if clipped and "clip" not in plain:
        lines.append(rng.choice(("clip_grad_norm = 0.5", "clip_grad_value = 0.05")))
    if rng.random() < 0.15 and "clip" not in plain:
        lines.append(
            rng.choice(
                (
                    "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)",
                    "scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)",
                    "scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)",
                    "scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + n))",
                    "scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.3, 1, 3)",
                    "scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3], 0.5)",
                )
            )
        )
    return lines


def frozen(rng: random.Random, names: list[str]) -> list[str]:
    """Lines that freeze some of the modules, now and then the last one."""
    if rng.random() > 0.3 or len(names) < 2:
        return []
    kept = rng.choice(names)
    return [f"self.{n}.requires_grad_(False)" for n in names if n != kept and rng.random() < 0.4 and n[0] != "p"]
