"""What work takes on a machine, in cycles, and where that was measured.

The figures are those of formulas: a family (or the planner) says what happens how often, a record here what it takes
once. Another chip, another compiler or a changed kernel is another record: docs/machine.md says how to measure it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainlib_deployer.machine.winograd_costs import (
    WinogradCosts,
    WinogradPairCosts,
    WinogradPanelCosts,
    WinogradTwosCosts,
)


@dataclass(frozen=True)
class Measured:
    """Where a record's figures come from."""

    where: str
    when: str
    compiler: str


@dataclass(frozen=True)
class PanelCosts:
    """Products by tiles of 4 x 4 results, a panel of 4 columns packed for each visit."""

    tile: float  # of results
    tile_block: float  # ... for each block of terms
    tile_term: float  # ... for each term
    visit: float
    visit_block: float
    visit_term: float
    edge_block: float  # more, for a tile that sticks out: each block
    edge_term: float  # ... and once each term


@dataclass(frozen=True)
class SideCosts:
    """Products by tiles of 4 x 3 or 4 x 4 results, of operands that are read where they lie."""

    start: float
    visit: float  # of four rows
    visit_block: float  # ... for each block of terms
    edge_block: float  # ... and for one that ends with fewer columns than a tile's
    tile_block: float  # of results
    tile_term: float


@dataclass(frozen=True)
class ApartCosts:
    """What does not lie as matrix products have it."""

    rows_block: float  # to pack the rows of a tile: each block of terms
    columns_term: float  # ... four columns: each term
    last_block: float  # a panel's last tile, of fewer than four rows
    results_block: float  # a tile whose rows are not dense in the results


@dataclass(frozen=True)
class PairCosts:
    """Products of halves by tiles of 4 x 4 results: the team packs one operand, a core the columns that it visits."""

    tile_block: float  # of results: each block of terms
    tile_term: float  # ... and each term
    visit_block: float
    block: float  # what the team packs at a time: barriers, code fetched anew
    packed: float  # an element of it


@dataclass(frozen=True)
class WholeCosts:
    """Products of halves whose rows are all packed at once, when it is known which operand they are of."""

    tile: float  # of 4 x 4 results
    term: float  # ... and each term
    visit: float  # of four columns
    last: float  # ... more where a panel's last tile has fewer than four rows
    edge: float  # more for a tile of fewer than four columns
    packed: float  # an element of rows


@dataclass(frozen=True)
class UpdateCosts:
    """Products that move weights by their sums, of operands that are packed or lie as they are read."""

    start: float
    panel: float  # to pack four rows or columns
    panel_step: float  # ... each term, or pair of terms
    tile: float  # of 4 x 4 weights
    step: float


@dataclass(frozen=True)
class PlanesCosts:
    """Convolutions of halves over planes, a word for each pixel of two channels."""

    step: float  # what is packed at a time: barriers, code fetched anew
    tile: float  # of 4 channels x 4 outputs
    tap: float  # ... of a pair of summed channels
    weights: float  # to pack a word of two weights
    pixels: float  # ... of two pixels


@dataclass(frozen=True)
class TwosCosts:
    """Depthwise convolutions of halves, of 3 x 3 taps by twos."""

    start: float
    plane: float  # of outputs, or a part of one
    channel: float  # of a weight gradient: each image, or a part of one
    row: float  # of a copy
    copied: float  # ... each element
    output: float
    met: float  # by a weight gradient: a word of outputs
    plane_s2: float  # of stride 2
    output_s2: float
    met_s2: float
    squares: float  # of an input gradient of stride 2: a row of 2 x 2 outputs
    square: float
    widened_plane: float  # of those that are made of floats, beside what floats take
    widened: float  # ... an element
    widened_tap: float


@dataclass(frozen=True)
class StripCosts:
    """Weight gradients of halves by kernel rows of three taps."""

    step: float  # what is packed at a time: barriers, code fetched anew
    tile: float  # of 4 channels x a kernel row
    pair: float  # ... of outputs
    inputs: float  # to pack what a pair of outputs meets
    gradients: float  # ... a pair of four channels


@dataclass(frozen=True)
class ProductCosts:
    """Products without panels: of columns with rows, and of a matrix with a vector."""

    outer: float
    outer_mac: float
    two_terms_row: float  # of four results of two terms
    two_terms_panel: float  # ... and to begin with four columns
    rows: float  # four rows at a time
    rows_quad: float
    rows_block: float
    rows_mac: float
    eight: float  # eight rows
    eight_block: float
    eight_mac: float
    split: float  # few rows, split over their terms
    split_vector: float  # ... of one column
    split_mac: float
    two: float  # four rows at a time times two columns
    two_block: float
    two_term: float


@dataclass(frozen=True)
class ConvCosts:
    """What convolutions do besides products by panels."""

    depthwise: float  # to start
    depthwise_column: float  # 3 x 3: a column of outputs
    depthwise_whole: float  # ... of a plane with one zero on every side
    depthwise_output: float  # ... and each of them
    depthwise_image: float  # gradient of 3 x 3 weights: a plane of one image, or a block where these are split
    depthwise_term: float  # ... and each output in it
    depthwise_plane: float  # a copy of a plane
    depthwise_element: float  # ... and each of its elements
    depthwise_line: float  # a row of outputs on it
    depthwise_plane_mac: float
    depthwise_kernel_row: float  # of a weight gradient: by an image
    depthwise_kernel_line: float  # ... and each row of outputs, but rows of six
    depthwise_classes: float  # more for a plane of an input gradient of stride 2
    depthwise_squares: float  # input gradient of 3 x 3, stride 2, by squares of 2 x 2 outputs: to start
    depthwise_squares_plane: float  # ... a plane, or a part of it
    depthwise_squares_column: float  # ... each of its columns of squares
    depthwise_square: float  # ... and each of them
    depthwise_squares_edge: float  # on a copy: a row or column at an edge of a plane
    depthwise_mac: float  # any kernel
    scattered: float  # times the panels' cycles where columns are gathered one by one
    by_table: float  # times the packing of a term where a table says where it is
    in_place: float  # ... where panels are read as they lie, but for those at an edge
    ragged: float  # more for a tile of fewer than four channels of planes: each block
    by_two: float  # times the cycles of kernel rows that take two outputs at a time
    sum: float  # an element of a weight gradient that is split over its blocks
    sum_block: float  # ... for each of them
    square: float  # input gradient of 3 x 3, stride 2: four squares of 2 x 2 of a channel
    square_term: float  # ... for each channel that is summed
    square_copy: float  # ... an element of its copy of dL/dy
    packed_weight: float
    packed_block: float
    block_tile: float  # forward, 3 x 3, whose terms are one block: a tile of 4 channels x 4 outputs
    block_term: float  # ... and each term
    block_row: float  # ... a row of inputs for some outputs
    block_four: float  # ... and four outputs that meet it


@dataclass(frozen=True)
class AroundCosts:
    """Convolutions of stride 2 from a copy of planes with the zeros around them."""

    start: float
    copied: float  # a word of planes
    weight: float  # ... of packed weights
    visit: float  # of four outputs
    tile_block: float  # of 4 x 4 results, for each block of terms
    tile_term: float  # ... for each term
    three: float  # three squares of 2 x 2 of a channel
    three_term: float  # ... for each channel that is summed
    partly: float  # ... more, if a part of them is outside


@dataclass(frozen=True)
class InsideCosts:
    """3 x 3 convolutions and input gradients without padding, read where they lie."""

    start: float
    tile: float  # 4 channels x 3 outputs
    tile_term: float  # ... for each channel that is summed
    row_tile: float  # of an input gradient: 4 channels x 3 or 4 inputs
    row_term: float  # ... for each kernel row of a channel that is summed
    eight_tile: float  # ... 2 channels x 8 inputs
    eight_term: float


@dataclass(frozen=True)
class LoopCosts:
    """Generated loops."""

    start: float  # the call, and the last core's wait for the first
    row: float  # of neighbouring elements: its addresses
    load: float
    store: float
    step: float  # of an element, where four are made at a time
    single: float  # ... where one is
    plain: float  # an instruction that is no function, where four elements are made at a time
    alone: float  # ... where one is, and waits for the one before
    result: float  # of a fold
    fold: float  # an element into a sum or product
    dense_fold: float  # ... into a sum, of four neighbours at a time
    dense_product: float  # ... that multiplies, too
    block: float  # a block of a sum
    functions: Mapping[str, float] = field(hash=False)  # instructions that take longer
    folds: Mapping[str, float] = field(hash=False)
    rarely: Mapping[str, float] = field(hash=False)  # once an operation: a function's code for large values


@dataclass(frozen=True)
class ScanCosts:
    """Recurrent layers, one direction."""

    step: float  # of time: barriers, and code that is not at hand
    group: float  # of units whose sums go together: what begins and ends them
    line: float  # an instruction of their loop
    unit: float
    gate: float  # of a unit: its function or its slope
    mac: float  # where rows of w come
    block: float  # of rows of w that come: a barrier, code that is not at hand, the start of a transfer
    four: float  # more for four sums of products with one


@dataclass(frozen=True)
class PoolCosts:
    """Windows over planes."""

    row: float  # of written elements
    maximum: float  # a tap
    mean: float  # a tap
    any_tap: float  # ... of kernels for all windows
    shared: float  # an input under windows side by side
    cleared: float  # an input to which what windows give is added, and for each window
    given: float
    gathered: float  # an input under any windows, for each of them
    rounded: float  # an input whose sum becomes a half
    each: float  # an input whose sum is made at once, and for each of the windows over it
    each_window: float


@dataclass(frozen=True)
class UnpricedCosts:
    """Kernels that say nothing of their own."""

    start: float
    element: float
    mac: float


@dataclass(frozen=True)
class TileCosts:
    """What an operation takes beside work and transfers."""

    idle: float  # what the link waits from one transfer to the next, where that is not asked for before
    tile: float  # a barrier, bookkeeping, what is read of tables in L2, and all cores that fetch code anew
    kernel: float  # once an operation: a kernel's code that all cores fetch
    first: float  # ... and more where nothing has called it before, for each byte of its code ...
    held: int  # ... as far as the cores' shared cache holds them
    again: float  # ... less where nothing else was called since
    loop: float  # ... and a generated loop's
    loop_first: float  # a loop of several in an operation, where it is first called there
    loop_again: float  # ... and each time after that
    loop_stream: float  # a loop in tiles: to begin with each stream
    loop_tile: float  # ... and less for each tile but the first, which finds its code
    loop_short: float  # ... and less where there are no tiles, and the body is short: little code
    link: float  # each further operation of a chain in a tile: all cores fetch its instructions anew
    turn: float  # each further loop of a series in a tile
    early: float  # to start transfers for a later operation where there are no others: code that is not at hand
    early_more: float  # and where there are: while the host's own first tile is on its way


@dataclass(frozen=True)
class Costs:
    """Everything that estimates are made of, but for memories and links."""

    measured: Measured
    panel: PanelCosts  # of matrix products
    settled: PanelCosts  # ... once it is known how operands and results lie
    apart: ApartCosts
    forward: PanelCosts  # of convolutions
    input_gradient: PanelCosts
    plane: PanelCosts  # ... and input gradients: of one tap over dense planes
    threes: SideCosts  # ... of threes of pixels
    fours: SideCosts  # ... of many fours
    plane_weight: PanelCosts  # ... and weight gradients
    weight_gradient: PanelCosts  # of others
    kernel_rows: PanelCosts  # weight gradients by kernel rows of three taps
    whole_pairs: PairCosts  # of matrix products, all rows and terms at once
    settled_pairs: WholeCosts
    one_tap: PairCosts  # of convolutions by one tap, so too
    pairs: PairCosts  # of others
    pixels: PairCosts  # of convolutions
    columns: PairCosts  # of weight gradients
    update_panels: UpdateCosts
    update_rows: UpdateCosts
    update: UpdateCosts
    update_pairs: UpdateCosts
    planes: PlanesCosts
    strips: StripCosts
    twos: TwosCosts
    product: ProductCosts
    conv: ConvCosts
    around: AroundCosts
    inside: InsideCosts
    winograd: WinogradCosts
    winograd_panels: WinogradPanelCosts
    winograd_twos: WinogradTwosCosts
    winograd_pairs: WinogradPairCosts
    winograd_whole: WinogradPairCosts
    loop: LoopCosts
    scan: ScanCosts  # forward
    scan_back: ScanCosts
    pool: PoolCosts
    unpriced: UnpricedCosts
    tile: TileCosts
