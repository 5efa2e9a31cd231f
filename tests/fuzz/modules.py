"""Random networks as source text: a seed is a file that stands alone.

A network is a row of steps. Every step draws from a generator of its own and adapts to the shape it finds, so that a
network with some steps dropped is a network again: this is how a failure is made smaller.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn import functional as F

from tests.fuzz import endings, families, rare_steps, spectral_steps, steps
from tests.fuzz.step import Shape, Step

assert families and rare_steps and spectral_steps, "they add to the steps when they are imported"

MOST_STEPS = 12
MOST_ELEMENTS = 8000
LARGEST, SMALLEST = 60.0, 1e-3  # of activations: beyond this, rounding is all there is
FEATURES = ("optimizer", "loss", "frozen", "outputs", "groups", "shake", "batch", "clip", "side")  # can be made plain
INPUTS = ("image", "image", "image", "sequence", "sequence", "tokens", "vector")


@dataclass(frozen=True)
class Recipe:
    """A seed, and what is left out of the network that it stands for."""

    seed: int
    dropped: frozenset[int] = frozenset()
    plain: frozenset[str] = frozenset()

    def rng(self, what: object) -> random.Random:
        return random.Random(f"{self.seed}/{what}")


@dataclass
class Text:
    """The network so far, its value included: PyTorch itself says which steps are possible."""

    sample: torch.Tensor
    x: torch.Tensor
    make: list[str] = field(default_factory=list)
    call: list[str] = field(default_factory=list)
    trained: bool = False
    holder: nn.Module = field(default_factory=nn.Module)

    def shape(self) -> Shape:
        return tuple(self.x.shape)

    def try_step(self, step: Step, number: int) -> bool:
        """Take the step over if PyTorch can do it, forward and backward, and its result is of a reasonable size."""
        make = [line.replace("@", str(number)) for line in step.make]
        call = [line.replace("@", str(number)) for line in step.call]
        given = self.sample.clone()
        names = {"self": self.holder, "torch": torch, "nn": nn, "F": F, "x": given, **steps.NAMES}
        try:  # what an earlier try of the same number has left in the holder is a KeyError where a buffer goes
            exec("\n".join((*make, *self.call, *call)), names)
            trained = acceptable(names["x"]) and self.trains(names["x"])
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError, KeyError):
            return False
        if not acceptable(names["x"]) or not torch.equal(given, self.sample):  # writing to a sample is refused
            return False
        self.x, self.trained = names["x"].detach(), trained
        self.make += make
        self.call += call
        return True

    def trains(self, x: torch.Tensor) -> bool:
        """Does a gradient reach a parameter? PyTorch raises where something that it needs was overwritten."""
        parameters = [p for p in self.holder.parameters() if p.requires_grad]
        if not x.requires_grad:
            return False
        return any(g is not None for g in torch.autograd.grad(x.square().sum(), parameters, allow_unused=True))


def acceptable(x: torch.Tensor) -> bool:
    if x.dim() not in steps.STEPS or not 0 < x.numel() <= MOST_ELEMENTS or not bool(torch.isfinite(x).all()):
        return False
    return SMALLEST < float(x.abs().max()) < LARGEST


def first_input(kind: str, rng: random.Random, batch: int) -> tuple[str, torch.Tensor]:
    """The expression of a sample, and one."""
    if kind == "tokens":
        text = f"torch.randint(0, 17, ({batch}, {rng.randint(2, 11)}))"
    else:
        shapes = {
            "image": (batch, rng.randint(1, 6), rng.randint(4, 17), rng.randint(4, 17)),
            "sequence": (batch, rng.randint(2, 11), rng.randint(2, 16)),
            "vector": (batch, rng.randint(2, 40)),
        }
        text = f"torch.randn{shapes[kind]}"
    return text, eval(text, {"torch": torch})


def source(recipe: Recipe) -> str:
    """The text of net.py."""
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(recipe.seed)
        return written(recipe, *network(recipe))


def network(recipe: Recipe) -> tuple[Text, str]:
    rng = recipe.rng("net")
    kind, batch = rng.choice(INPUTS), rng.choice((1, 1, 2, 3))
    sample, x = first_input(kind, recipe.rng("input"), 1 if "batch" in recipe.plain else batch)
    text = Text(x, x)
    if kind == "tokens":
        text.try_step(steps.embedding(recipe.rng("embedding")), 0)
    for number in range(1, rng.randint(1, MOST_STEPS) + 1):
        if number not in recipe.dropped:
            add_step(text, recipe, number)
    return text, sample


def add_step(text: Text, recipe: Recipe, number: int) -> None:
    """The first of a few tries that works; which ones, does not depend on other steps."""
    rng = recipe.rng(number)
    for _ in range(6):
        choices: list[Callable[[random.Random, Shape], Step]] = steps.STEPS[len(text.shape())]
        if text.try_step(rng.choice(choices)(rng, text.shape()), number):
            return


def written(recipe: Recipe, text: Text, sample: str) -> str:
    complex_ = any("complex" in line for line in text.make)  # PyTorch clips such a parameter by no value
    end = endings.ending(
        recipe.rng, recipe.plain | ({"clip"} if complex_ else set()), text.shape(), text.call, text.trained
    )
    side = recipe.rng("side").random() < 0.12 and "side" not in recipe.plain
    if side:  # a second input
        rows = (-1, *(1 for _ in text.shape()[1:]))
        text.make.append("self.side = nn.Linear(3, 1)")
        text.call.append(f"x = x * (1 + torch.tanh(self.side(z)).reshape{rows})")
        sample = f"({sample}, torch.randn({text.shape()[0]}, 3))"
    made = (line for line in (*text.make, *end.make) if " = nn." in line and " = nn.Buffer(" not in line)
    names = sorted({line.split("=")[0].strip().split(".")[1] for line in made})
    empty = {n for n, m in text.holder.named_children() if not any(p.numel() for p in m.parameters())}
    frozen = (
        [] if "frozen" in recipe.plain else endings.frozen(recipe.rng("frozen"), [n for n in names if n not in empty])
    )
    lines = [
        f'"""A random network: seed {recipe.seed}."""',
        "",
        "import torch",
        "from torch import nn",
        "from torch.nn import functional as F",
        "from torch.nn.utils import parametrizations",
        "",
        f"torch.manual_seed({recipe.seed})",
        "",
        "",
        "class Net(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        *(f"        {line}" for line in (*text.make, *end.make, *frozen)),
        "",
        f"    def forward(self, x{', z' if side else ''}):",
        *(f"        {line}" for line in (*text.call, *end.call)),
        "",
        "",
        "model = Net()",
        *([] if "shake" in recipe.plain else endings.SHAKE),
        *end.after,
        f"data = [({sample}, {end.target}) for _ in range(4)]",
        "example_input, example_target = data[0]",
    ]
    return "\n".join(lines) + "\n"
