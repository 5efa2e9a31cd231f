"""Optimizers: the update of every parameter as pointwise loops, in PyTorch's own order of arithmetic.

`lr` and `step` are run-time scalars, and so is the momentum where a scheduler changes it. A group whose learning rate
differs from the first group's gets a constant factor on `lr`.
Bias corrections 1 - beta^t are carried as c <- beta*c + (1 - beta), which keeps full precision in the first steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.update import Group, Hyper, Parameter, scalars, update
from trainlib_deployer.program.expr import Expr, Operand, apply, call, select
from trainlib_deployer.program.ir import View

Rule = Callable[[Builder, Group, list[Parameter]], None]
OPTIMIZERS: dict[str, Rule] = {}
NEAR = 2.0**-14  # gradients are seldom above 2^12 such eps


def optimizer(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for name in names:
            OPTIMIZERS[name] = rule
        return rule

    return register


def signed(hyper: Hyper, g: Expr) -> Expr:
    return -g if hyper.get("maximize") else g


def decayed(hyper: Hyper, g: Expr, p: Expr) -> Expr:
    """The gradient with L2 decay added, rounded once."""
    decay = hyper.get("weight_decay", 0.0)
    return apply("fma", [p, float(decay), g]) if decay else g


def both_decays(h: Hyper, p: Expr, g: Expr, lr: Expr, decoupled: bool) -> tuple[Expr, Expr]:
    """The parameter and the gradient with weight decay on one of them."""
    decay = float(h.get("weight_decay", 0.0))
    if decay and decoupled:
        return p * (1.0 - lr * decay), g
    return p, decayed(h, g, p)


def moved(p: Expr, lr: Expr, direction: Expr) -> Expr:
    """p - lr * direction, rounded once, as PyTorch's own vectorized loops do."""
    return apply("fma", [-lr, direction, p])


def averaged(average: Expr, g: Expr, beta: Expr | float) -> Expr:
    """beta * average + (1 - beta) * g, from the one that weighs more: little of the other's rounding is left."""
    if isinstance(beta, float) and beta < 0.5:
        return apply("fma", [average - g, beta, g])
    return apply("fma", [g - average, 1.0 - beta, average])


def mean_square(average: Expr, g: Expr, beta: float) -> Expr:
    """beta * average + (1 - beta) * g^2, likewise."""
    if beta < 0.5:
        return apply("fma", [g * (1.0 - beta), g, average * beta])
    return apply("fma", [apply("fma", [g, g, -average]), 1.0 - beta, average])


def over_root(x: Expr, more: Expr | float, eps: float, beta2: float = 0.0) -> Callable[[Expr], Expr]:
    """What divides by sqrt(x) + more, where `more` is eps or eps sqrt(1 - beta2^t): by a reciprocal within 4 ulp where
    its range of `more` allows it. Else it divides, as 0 / 1e-40 is 0, but 1 / 1e-40 infinite."""
    if eps * sqrt(1.0 - beta2) >= 2.0**-36 and eps < 2.0**100:
        inverse = call("inverse_root_near" if eps >= NEAR else "inverse_root", x, more)
        return lambda given: given * inverse
    root = call("sqrt", x) + more
    return lambda given: given / root


def bias_correction(b: Builder, group: Group, beta: View | float, label: str) -> View:
    """1 - beta^t, advanced once an update; PyTorch takes the power of a beta that changes."""
    if isinstance(beta, View):

        def power(beta: Expr, step: Expr) -> Sequence[Operand]:
            return (-call("expm1", (step.float() + 1.0) * call("log", beta)),)

        return scalars(b, group, label, power, [beta, group.step], {}, results=1)[0]
    return scalars(b, group, label, lambda c: (c * beta + (1.0 - beta),), [], {label: 0.0})[0]


@optimizer("SGD")
def sgd(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    h = group.hyper
    dampening = float(h.get("dampening", 0.0))

    def plain(p: Expr, g: Expr, lr: Expr) -> Sequence[Operand]:
        return (moved(p, lr, decayed(h, signed(h, g), p)),)

    def heavy(p: Expr, g: Expr, lr: Expr, step: Expr, momentum: Expr, buf: Expr) -> Sequence[Operand]:
        d = decayed(h, signed(h, g), p)
        later = apply("fma", [buf, momentum, d * (1.0 - dampening)])
        new = later if dampening == 0 else select(step.equals(0), d, later)
        direction = apply("fma", [new, momentum, d]) if h.get("nesterov") else new
        return moved(p, lr, direction), new

    for q in parameters:
        if group.momentum:
            update(b, group, q, ["momentum_buffer"], heavy, group.step, group.momentum)
        else:
            update(b, group, q, [], plain)


@optimizer("Adam", "AdamW")
def adam(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    h = group.hyper
    beta1, beta2 = group.betas
    eps, amsgrad = float(h.get("eps", 1e-8)), bool(h.get("amsgrad"))
    decoupled = bool(h.get("decoupled_weight_decay")) or h.get("kind") == "AdamW"
    c1 = bias_correction(b, group, beta1, "correction1")
    c2 = bias_correction(b, group, beta2, "correction2")

    def rates(lr: Expr, c1: Expr, c2: Expr) -> Sequence[Operand]:
        """lr / c1 and eps of sqrt(v / c2) + eps, both times sqrt(c2): of each parameter that is sqrt(v) + eps."""
        root = call("sqrt", c2)
        return lr * root / c1, root * eps

    shared = scalars(b, group, "rate", rates, [group.lr, c1, c2], {}, results=2)

    def formula(
        p: Expr, g: Expr, lr: Expr, rate: Expr, more: Expr, beta1: Expr, m: Expr, v: Expr, *top: Expr
    ) -> Sequence[Operand]:
        p, g = both_decays(h, p, signed(h, g), lr, decoupled)
        v = mean_square(v, g, beta2)
        largest = [call("max", before, v) for before in top]
        divided = over_root(largest[0] if largest else v, more, eps, beta2)
        m = averaged(m, g, beta1)
        return (moved(p, rate, divided(m)), m, v, *largest)

    labels = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")[: 3 if amsgrad else 2]
    for q in parameters:
        update(b, group, q, labels, formula, *shared, beta1)


@optimizer("NAdam")
def nadam(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    """mu(t) = beta1 (1 - 0.5 * 0.96^(t * momentum_decay)); the power is carried from step to step."""
    h = group.hyper
    beta1, beta2 = group.betas
    eps, factor = float(h.get("eps", 1e-8)), 0.96 ** float(h.get("momentum_decay", 4e-3))
    decoupled = bool(h.get("decoupled_weight_decay"))
    c2 = bias_correction(b, group, beta2, "correction2")

    def rates(lr: Expr, c2: Expr, beta1: Expr, power: Expr, product: Expr) -> Sequence[Operand]:
        power = power * factor
        mu, mu_next = (beta1 - power * (0.5 * beta1)), (beta1 - power * (0.5 * beta1 * factor))
        product = product * mu
        root = call("sqrt", c2)
        of_gradient = lr * root * (1.0 - mu) / (1.0 - product)
        of_average = lr * root * mu_next / (1.0 - product * mu_next)
        return of_gradient, of_average, root * eps, power, product

    states = {"power": 1.0, "mu_product": 1.0}
    shared = scalars(b, group, "rates", rates, [group.lr, c2, beta1], states, results=3)[:3]

    def formula(
        p: Expr, g: Expr, lr: Expr, by_g: Expr, by_m: Expr, more: Expr, beta1: Expr, m: Expr, v: Expr
    ) -> Sequence[Operand]:
        p, g = both_decays(h, p, signed(h, g), lr, decoupled)
        m = averaged(m, g, beta1)
        v = mean_square(v, g, beta2)
        divided = over_root(v, more, eps, beta2)
        return p - by_g * divided(g) - by_m * divided(m), m, v

    for q in parameters:
        update(b, group, q, ["exp_avg", "exp_avg_sq"], formula, *shared, beta1)


@optimizer("RAdam")
def radam(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    """The length of the average, rho_inf - 2 t beta2^t / (1 - beta2^t), without its cancellation:
    2 s / w - 1 with w = sum of beta2^j and s = sum of (j + 1) beta2^j over j < t."""
    h = group.hyper
    beta1, beta2 = group.betas
    eps, decoupled = float(h.get("eps", 1e-8)), bool(h.get("decoupled_weight_decay"))
    longest = 2.0 / (1.0 - beta2) - 1.0
    c1 = bias_correction(b, group, beta1, "correction1")

    def rates(lr: Expr, c1: Expr, w: Expr, s: Expr) -> Sequence[Operand]:
        w = w * beta2 + 1.0
        s = s * beta2 + w
        length = 2.0 * (s / w) - 1.0
        scale = longest / ((longest - 4.0) * (longest - 2.0))
        square = (length - 4.0) * (length - 2.0) * scale / length
        rectified = call("sqrt", call("max", square, 0.0) * (w * (1.0 - beta2)))
        return lr / c1, select(length > 5.0, rectified, -1.0), w, s

    states = {"weights": 0.0, "moments": 0.0}
    shared = scalars(b, group, "rates", rates, [group.lr, c1], states, results=2)[:2]

    def formula(
        p: Expr, g: Expr, lr: Expr, rate: Expr, rectified: Expr, beta1: Expr, m: Expr, v: Expr
    ) -> Sequence[Operand]:
        p, g = both_decays(h, p, signed(h, g), lr, decoupled)
        m = averaged(m, g, beta1)
        v = mean_square(v, g, beta2)
        adaptive = select(rectified < 0.0, 1.0, over_root(v, eps, eps)(rectified))
        return p - rate * m * adaptive, m, v

    for q in parameters:
        update(b, group, q, ["exp_avg", "exp_avg_sq"], formula, *shared, beta1)


@optimizer("Adamax")
def adamax(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    h = group.hyper
    beta1, beta2 = group.betas
    eps = float(h.get("eps", 1e-8))
    c1 = bias_correction(b, group, beta1, "correction1")
    shared = scalars(b, group, "rate", lambda lr, c: (lr / c,), [group.lr, c1], {}, results=1)

    def formula(p: Expr, g: Expr, lr: Expr, rate: Expr, beta1: Expr, m: Expr, top: Expr) -> Sequence[Operand]:
        g = decayed(h, signed(h, g), p)
        m = averaged(m, g, beta1)
        top = call("max", top * beta2, call("abs", g) + eps)
        return p - rate * (m / top), m, top

    for q in parameters:
        update(b, group, q, ["exp_avg", "exp_inf"], formula, *shared, beta1)


@optimizer("RMSprop")
def rmsprop(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    h = group.hyper
    alpha, eps = float(h.get("alpha", 0.99)), float(h.get("eps", 1e-8))
    centered, heavy = bool(h.get("centered")), bool(group.momentum)

    def formula(p: Expr, g: Expr, lr: Expr, momentum: Expr, square: Expr, *rest: Expr) -> Sequence[Operand]:
        left = list(rest)
        g = decayed(h, signed(h, g), p)
        square = mean_square(square, g, alpha)
        out: list[Operand] = [square]
        spread = square
        if centered:
            average = left.pop(0)
            average = averaged(average, g, alpha)
            out.append(average)
            spread = square - average * average
        direction = over_root(spread, eps, eps)(g)
        if heavy:
            direction = apply("fma", [left.pop(0), momentum, direction])
            out.append(direction)
        return (moved(p, lr, direction), *out)

    labels = ["square_avg"] + ["grad_avg"] * centered + ["momentum_buffer"] * heavy
    for q in parameters:
        update(b, group, q, labels, formula, group.momentum)


@optimizer("Adagrad")
def adagrad(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    h = group.hyper
    decay, eps = float(h.get("lr_decay", 0.0)), float(h.get("eps", 1e-10))

    def formula(p: Expr, g: Expr, lr: Expr, step: Expr, total: Expr) -> Sequence[Operand]:
        g = decayed(h, signed(h, g), p)
        total = total + g * g
        rate = lr / (step.float() * decay + 1.0) if decay else lr
        return p - rate * over_root(total, eps, eps)(g), total

    for q in parameters:
        initial = {"sum": float(h["defaults"].get("initial_accumulator_value", 0.0))}
        update(b, group, q, ["sum"], formula, group.step, initial=initial)


@optimizer("Adadelta")
def adadelta(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    h = group.hyper
    rho, eps = float(h.get("rho", 0.9)), float(h.get("eps", 1e-6))

    def formula(p: Expr, g: Expr, lr: Expr, square: Expr, delta: Expr) -> Sequence[Operand]:
        g = decayed(h, signed(h, g), p)
        square = mean_square(square, g, rho)
        change = call("sqrt", delta + eps) / call("sqrt", square + eps) * g
        return p - lr * change, square, delta * rho + change * change * (1.0 - rho)

    for q in parameters:
        update(b, group, q, ["square_avg", "acc_delta"], formula)


@optimizer("Rprop")
def rprop(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    h = group.hyper
    less, more = (float(v) for v in h.get("etas", (0.5, 1.2)))
    low, high = (float(v) for v in h.get("step_sizes", (1e-6, 50.0)))

    def formula(p: Expr, g: Expr, lr: Expr, before: Expr, size: Expr) -> Sequence[Operand]:
        g = signed(h, g)
        turn = g * before
        size = size * select(turn > 0.0, more, select(turn < 0.0, less, 1.0))
        size = call("min", call("max", size, low), high)
        g = select(turn < 0.0, 0.0, g)
        return p - call("sign", g) * size, g, size

    for q in parameters:
        update(b, group, q, ["prev", "step_size"], formula, initial={"step_size": float(h["lr"])})


@optimizer("ASGD")
def asgd(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    """The rate eta and the weight mu of a step come from the step before."""
    h = group.hyper
    decay, power, start = float(h.get("lambd", 1e-4)), float(h.get("alpha", 0.75)), float(h.get("t0", 1e6))

    def rates(lr: Expr, step: Expr, eta: Expr, mu: Expr) -> Sequence[Operand]:
        t = step.float() + 1.0
        later = lr / call("pow", 1.0 + lr * decay * t, power)
        return eta * 1.0, mu * 1.0, later, 1.0 / call("max", t - start, 1.0)

    states = {"eta": float(h["lr"]), "mu": 1.0}
    shared = scalars(b, group, "rates", rates, [group.lr, group.step], states, results=2)[:2]

    def formula(p: Expr, g: Expr, lr: Expr, eta: Expr, mu: Expr, average: Expr) -> Sequence[Operand]:
        g = decayed(h, signed(h, g), p)
        p = p * (1.0 - eta * decay) - eta * g
        return p, select(mu.equals(1.0), p, average + (p - average) * mu)

    for q in parameters:
        update(b, group, q, ["ax"], formula, *shared)
