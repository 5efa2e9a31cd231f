"""Passes: each a function from Program to Program, one to a file. The pipeline on one screen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.passes.add_up import add_up
from trainlib_deployer.passes.begin_biased import begin_biased
from trainlib_deployer.passes.choose_winograd import choose_winograd
from trainlib_deployer.passes.clip_numbers import clip_numbers
from trainlib_deployer.passes.coalesce import coalesce
from trainlib_deployer.passes.drop_dead import drop_dead
from trainlib_deployer.passes.early_masks import early_masks
from trainlib_deployer.passes.early_slopes import early_slopes
from trainlib_deployer.passes.fuse_loops import fuse_loops
from trainlib_deployer.passes.fuse_updates import fuse_updates
from trainlib_deployer.passes.hoist_updates import hoist_updates
from trainlib_deployer.passes.join_scans import join_scans
from trainlib_deployer.passes.long_sums import long_sums
from trainlib_deployer.passes.loss_again import loss_again
from trainlib_deployer.passes.mixed import mixed
from trainlib_deployer.passes.order_halves import halves_in_order
from trainlib_deployer.passes.place_sums import place_sums
from trainlib_deployer.passes.pool_first import pool_first
from trainlib_deployer.passes.prune_loops import prune_loops
from trainlib_deployer.passes.reorder import reorder
from trainlib_deployer.passes.see_layouts import see_layouts
from trainlib_deployer.passes.share_constants import share_constants
from trainlib_deployer.passes.split_reductions import split_reductions
from trainlib_deployer.passes.store_updates import store_updates
from trainlib_deployer.passes.write_through import write_through
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.precision import Precision

Pass = Callable[[Program], Program]

DEFAULT: tuple[Pass, ...] = (
    drop_dead,  # results that nobody reads
    prune_loops,  # ... and inside of generated loops
    share_constants,  # those of the same contents
    place_sums,  # gradients of slices into one tensor
    add_up,  # gradients of shared weights inside of the products that make them
    loss_again,  # what the loss keeps of outputs for its gradient
    pool_first,  # maxima before a ReLU
    begin_biased,  # products with the bias that is added to them
    fuse_loops,  # chains of pointwise operations into one loop
    write_through,  # results where copies would take them
    fuse_updates,  # gradients that are products of single numbers into the update that uses them
    split_reductions,  # few results from many elements: all cores take part
    hoist_updates,  # a parameter's update right behind its gradient
    coalesce,  # neighbouring dimensions that step as one
    reorder,  # the backward pass in the order that needs the least memory
    early_masks,  # signs or copies instead of activations where that lowers the peak
    choose_winograd,  # convolutions with fewer multiplications
    store_updates,  # weights by the products that make their gradients
    see_layouts,  # what kernels of products have to pack
)
DIRECT = tuple(step for step in DEFAULT if step is not choose_winograd)  # every multiplication of the definition
AT, THEN = DIRECT.index(reorder), DIRECT.index(early_masks) + 1


def chosen(precision: Precision, arithmetic: str = "fastest") -> tuple[Pass, ...]:
    """Of half precision, types change before or behind the order, which goes by sizes."""
    steps = DIRECT if arithmetic == "direct" else DEFAULT
    if precision.halves:
        smaller = partial(mixed, keep=precision.keep, weights=precision.weights, half=precision.half)
        *behind, last = steps[THEN:]
        return (*steps[:AT], partial(halves_in_order, smaller=smaller, behind=(long_sums, *behind)), last)
    return steps


def for_machine(program: Program, machine: Machine) -> Program:
    """Behind all that weighs what is kept."""
    return clip_numbers(join_scans(early_slopes(program), machine))


def run(program: Program, passes: tuple[Pass, ...] = DEFAULT) -> Program:
    for step in passes:
        program = step(program)
    return program
