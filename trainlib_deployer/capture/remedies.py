"""What to write instead of an operation that cannot be deployed: by the user's function, or by PyTorch's operation."""

from __future__ import annotations

import re

ON_VALUES = (
    "the computation depends on the values in a tensor (if, while, float(), int(), .item() on a tensor): "
    "the step of a deployed network is the same for every sample"
)
ON_SHAPES = (
    "a shape depends on the values in a tensor (a boolean index, nonzero, unique): memory is planned before the run"
)

CONSTANT = "compute it outside of forward and keep the result with register_buffer"
RANDOM = "draw the random numbers outside of forward and pass them in as another input"
VALUES = "use torch.where(condition, a, b), which computes both, or decide outside of forward"
PLACES = (
    "for a place, leave out int() and index by the tensor: x[at + torch.arange(3)] instead of x[int(at) : int(at) + 3]"
)
NONE_AT_ALL = "leave out the condition where a mask selects: out[mask] = layer(x[mask]) does nothing for no rows at all"
NUMBER = "leave out .item(): a tensor of one element, x.detach(), takes part as the number that it holds does"
SHAPES = (
    "compute all of it, and choose by torch.where(mask, a, b) or multiply by the mask: the shape then stays the same"
)
DECOMPOSED = f"{CONSTANT} if it does not depend on the input; else solve by a fixed number of matrix products"
LARGE_MATRIX = f"matrices of up to 32 rows and columns are taken apart; for larger ones {DECOMPOSED}"
EIGEN = f"matrices of up to 16 rows or columns are taken apart; for larger ones {DECOMPOSED}"
SYMMETRIC = "take torch.linalg.eigh of a symmetric matrix, or torch.linalg.svdvals, of up to 16 rows or columns"
COMPLEX = "calculate with x.real and x.imag, or with x.abs() and x.angle()"
DENSE = "keep the tensor dense, with zeros where the sparse one has nothing"
CONV3D = "call it as torch.conv3d or torch.conv_transpose3d, which are taken apart into planes"
INDICES = "call it as F.max_pool2d(x, ..., return_indices=True)"
NUMPY = "use torch's own functions (torch.sin for np.sin): only they are traced and differentiated"
COUNTS = "compare with the bin edges and sum: ((x >= low) & (x < high)).float().sum()"
NUMBERS = "say how many numbers there are, torch.bincount(x, minlength=10): none of x may be larger"
TIES = "take the first of equal ones: x.sort(dim=dim, stable=True).values.select(dim, k - 1)"
PART = "write to a part of a parameter through its data: weight.data[2:4].clamp_(-1, 1)"
IN_PLACE = "work on a copy: x = x + 1 instead of x += 1"
MOMENTUM = "give the layer a momentum, such as momentum=0.1, or make a layer for each call"
PADDED = "run the layer on the padded sequence, and take y[torch.arange(len(y)), lengths - 1], or mask what lies beyond"
REPLACED = "change it in place, self.weight.data.copy_(...): an optimizer goes on with the parameter that it was given"
STATE = "forward may depend on its inputs, parameters and buffers only: keep counters and state in register_buffer"
FIRST_CALL = "call the model once where the file makes it, so that a step begins behind that: model(example_input)"
OUTSIDE = "make it the model's: self.register_buffer('state', ...), and write to self.state"
COUNTED = "keep it as a tensor, self.register_buffer('n', torch.zeros(())), and choose by torch.where(self.n > 5, a, b)"
DRAWN = "draw them by torch.rand(()), as a deployed step does, and choose by torch.where(torch.rand(()) < 0.3, a, b)"
SHARE = (
    ": of {count} backward passes that make a step, each goes through 1/{count} of the loss, and a hook that bounds or "
    "normalises gradients makes others of these than of the whole"
)
AFTER_SUM = "bound what is summed up (clip_grad_value = 0.1 or clip_grad_norm = 1.0), or leave out --accumulate"
OURS = "leave out layers until it agrees, and report the one that does not: the mistake is not in your file"
NARROW = "convert first: .float() or .int()"
INTEGERS = "convert them before: x.float()"
LARGE = "use numbers of 32 bits, or floats"
FLOAT32 = "stay in float32: leave out .double(), .bfloat16() and dtype=; --dtype mixed keeps activations in halves"

REMEDIES: dict[str, str] = {
    "gcd": CONSTANT,
    "lcm": CONSTANT,
    "scatter_reduce": INTEGERS,
    "index_reduce": INTEGERS,
    "bincount": NUMBERS,
    "histc": COUNTS,
    "histogram": COUNTS,
    "det": LARGE_MATRIX,
    "logdet": LARGE_MATRIX,
    "slogdet": LARGE_MATRIX,
    "inverse": LARGE_MATRIX,
    "cholesky": LARGE_MATRIX,
    "qr": LARGE_MATRIX,
    "svd": EIGEN,
    "pinverse": EIGEN,
    "to_sparse": DENSE,
    "to_sparse_csr": DENSE,
    "igamma": CONSTANT,
}

FAMILIES = {
    **{f"linalg_{n}": LARGE_MATRIX for n in ("inv", "det", "slogdet", "solve", "cholesky", "lu", "qr")},
    **{f"linalg_{n}": EIGEN for n in ("svd", "eigh", "eigvalsh", "pinv", "matrix_norm", "cond")},
    "linalg_": DECOMPOSED,
    "_linalg_svd": EIGEN,
    "_linalg_eigh": EIGEN,
    "_linalg": DECOMPOSED,
    "special_": CONSTANT,
    "sparse": DENSE,
    "_sparse": DENSE,
}

GENERAL = "docs/operations.md lists the operations that can be deployed"


def remedy_for(*names: str) -> str:
    """By the first name that is known, the user's before PyTorch's."""
    for name in names:
        if name in REMEDIES:
            return REMEDIES[name]
        family = next((text for start, text in FAMILIES.items() if name.startswith(start)), None)
        if family is not None:
            return family
    return GENERAL


def remedy_for_value(line: str) -> str:
    """By the user's line that takes a number out of a tensor."""
    if re.match(r"if\b.*\.any\(", line):
        return f"{NONE_AT_ALL}; to choose, {VALUES}"
    if re.match(r"(if|elif|while|assert)\b", line):
        return VALUES
    if re.search(r"\bint\(", line):
        return f"{PLACES}; to choose, {VALUES}"
    return f"{NUMBER}; to choose, {VALUES}" if re.search(r"\bfloat\(|\.item\(|\.tolist\(", line) else VALUES


def remedy_for_exception(text: str) -> str:
    """By what PyTorch's tracing said."""
    lower = text.lower()
    if "numpy" in lower:
        return NUMPY
    if "sparse" in lower:
        return DENSE
    if "created in no_grad mode" in lower:
        return PART
    if "in-place" in lower or "inplace" in lower:
        return IN_PLACE
    if "packed sequence" in lower:
        return PADDED
    if "momentum=none" in lower:
        return MOMENTUM
    if "complex" in lower:
        return COMPLEX
    return ""
