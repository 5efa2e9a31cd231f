"""Operations: rearranging and attention."""

# ruff: noqa: PLW0108 - lambdas keep a case on one line, and `x == x` is one
from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.e2e.operation_case import (
    case,
    cases,
    fixed,
    mask,
    module,
)

# ---- rearranging

cases(
    "movement",
    {
        "cat": lambda x: torch.cat([x, x * 2, x[:, :1]], 1),
        "stack": lambda x: torch.stack([x, x.exp(), x], -1),
        "split": lambda x: tuple(v * (i + 1) for i, v in enumerate(x.split(2, 1))),
        "split_sizes": lambda x: x.split([1, 3], 1)[1] * 2,
        "chunk": lambda x: x.chunk(3, dim=2)[0] * x.chunk(3, dim=2)[1],
        "unbind": lambda x: x.unbind(1)[0] * x.unbind(1)[2],
        "slice": lambda x: x[:, 1:4:2] * 1.5,
        "slices_overlap": lambda x: x[:, 1:] + x[:, :-1],
        "negative": lambda x: x[-1, :, -3:],
        "select": lambda x: x[:, 2].sin(),
        "ellipsis": lambda x: x[..., None, 0],
        "index_list": lambda x: x[:, [2, 0, 2]],
        "index_pair": lambda x: x[[0, 1, 0], [3, 1, 3]],
        "index_separate": lambda x: x[[0, 1, 0], :, [3, 1, 3]],
        "transpose": lambda x: x.transpose(1, 2) * 2,
        "permute": lambda x: x.permute(2, 0, 1).cos(),
        "permute_view": lambda x: x.permute(2, 0, 1).reshape(6, -1),
        "movedim": lambda x: x.movedim(0, -1) + 1,
        "flatten": lambda x: x.flatten(1).tanh(),
        "unflatten": lambda x: x.unflatten(2, (3, 2)).sum(3),
        "squeeze": lambda x: x[:1].squeeze(0).unsqueeze(1).mul(2),
        "expand": lambda x: x[:, :1].expand(-1, 3, -1) * 2,
        "repeat": lambda x: x.repeat(2, 1, 3),
        "repeat_interleave": lambda x: x.repeat_interleave(2, dim=1),
        "tile": lambda x: x.tile((2, 2)),
        "roll": lambda x: x.roll((1, -2), (1, 2)),
        "roll_flat": lambda x: x.roll(3),
        "flip": lambda x: x.flip(0, 2) * x,
        "rot90": lambda x: x.rot90(1, (1, 2)),
        "triu": lambda x: x.triu(1) + x.tril(-1),
        "diagonal": lambda x: x.diagonal(1, 1, 2),
        "diag_embed": lambda x: torch.diag_embed(x[:, 0]),
        "unfold": lambda x: x.unfold(2, 3, 2),
        "unfold_overlap": lambda x: x.unfold(1, 2, 1).sum(-1),
        "narrow": lambda x: x.narrow(1, 1, 2),
        "swap_add": lambda x: x[:, :, :4].transpose(1, 2) + x[:, :, 2:],
        "view_as_real_free_view": lambda x: x.view(2, -1)[1] * 2,
        "clone_inplace": lambda x: x.clone().mul_(2).add_(1),
        "slice_assign": lambda x: assigned(x),
        "broadcast_to": lambda x: torch.broadcast_to(x[:1], (3, 4, 6)),
        "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], indexing="ij")[0] * 1.5,
        "as_strided_free_window": lambda x: x.reshape(-1)[3:15].reshape(3, 4),
        "hstack": lambda x: torch.hstack([x, x]) + torch.vstack([x, x]).sum(),
        "detach": lambda x: x * x.detach(),
        "dropped_output": lambda x: x.split(3, dim=2)[1],
    },
    (2, 4, 6),
)


def assigned(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[:, 1] = x[:, 0]
    y[0, 2:, 1] += 1
    return y


rows = fixed(torch.tensor([2, 0, 2, 1]))
places = fixed(torch.tensor([[0, 2, 1, 2, 0], [3, 3, 0, 1, 2]]))
case("indices", "index_select", lambda x, i: x.index_select(1, i), (2, 4, 3), rows)
case("indices", "index_rows", lambda x, i: x[i], (4, 3), rows)
case("indices", "index_middle", lambda x, i: x[:, i], (2, 4, 3), rows)
case("indices", "index_2d", lambda x, i: x[i], (4, 3), places)
case("indices", "index_two", lambda x, i, j: x[i, j], (3, 4, 2), rows, fixed(torch.tensor([3, 1, 3, 0])))
case("indices", "index_gap", lambda x, i, j: x[i, :, j], (3, 2, 4), rows, fixed(torch.tensor([3, 1, 3, 0])))
case("indices", "index_broadcast", lambda x, i: x[torch.arange(2)[:, None], i], (2, 4, 3), places)
case("indices", "index_negative", lambda x, i: x[i - 3], (4, 3), rows)
case("indices", "gather", lambda x, i: x.gather(1, i), (2, 4), places)
case("indices", "gather_first", lambda x, i: x.gather(0, i), (4, 6), places)
case("indices", "gather_3d", lambda x, i: x.gather(1, i[:, :, None].expand(-1, -1, 3)), (2, 4, 3), places)
case("indices", "take_along", lambda x, i: torch.take_along_dim(x, i, 1), (2, 4), places)
case("indices", "take", lambda x, i: x.take(i), (2, 4), places)
case("indices", "scatter_add", lambda x, y, i: x.scatter_add(1, i, y), (2, 4), (2, 5), places)
case(
    "indices",
    "scatter",
    lambda x, y, i: x.scatter(1, i, y),
    (2, 4),
    (2, 3),
    fixed(torch.tensor([[0, 3, 1], [2, 1, 0]])),
)
case("indices", "scatter_value", lambda x, i: x.scatter(1, i, 0.5), (2, 4), places)
case("indices", "scatter_reduce", lambda x, y, i: x.scatter_reduce(1, i, y, "sum"), (2, 4), (2, 5), places)
case("indices", "index_add", lambda x, y, i: x.index_add(0, i, y), (4, 3), (4, 3), rows)
case("indices", "index_copy", lambda x, y, i: x.index_copy(0, i, y), (4, 3), (3, 3), fixed(torch.tensor([2, 0, 3])))
case("indices", "index_fill", lambda x, i: x.index_fill(1, i, 0.5), (2, 4, 3), rows)
case("indices", "index_put", lambda x, y, i: x.index_put((i,), y), (4, 3), (3, 3), fixed(torch.tensor([2, 0, 3])))
case("indices", "index_put_add", lambda x, y, i: x.index_put((i,), y, accumulate=True), (4, 3), (4, 3), rows)
case("indices", "mask_multiply", lambda x, m: x * m, (3, 4), mask(3, 4))
case("indices", "masked_scatter_free", lambda x, m: torch.where(m, x, x * 0.1), (3, 4), mask(3, 4))
case("indices", "arange_positions", lambda x: x + torch.arange(4) * 0.5, (3, 4))
case("indices", "positions", lambda w, x: x + w[torch.arange(3)], (5, 4), (2, 3, 4))
case("indices", "linspace", lambda x: x * torch.linspace(0, 1, 4), (3, 4))
case("indices", "eye_ones", lambda x: x @ torch.eye(4) + torch.ones(4) + torch.zeros(3, 1), (3, 4))
case("indices", "eye_of_many_columns", lambda x: (x @ torch.eye(4, 257))[:, 1:6], (3, 4))
case("indices", "tensor_literal", lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0]), (3, 4))
case("indices", "full_like", lambda x: x * torch.full_like(x, 2.5) + x.new_ones(4), (3, 4))
case("indices", "bucketize_free_compare", lambda x: (x[:, None] > torch.arange(3.0)).sum(-1) * x.abs(), (5,))
case("indices", "tril_mask", lambda x: x.masked_fill(torch.triu(torch.ones(4, 4, dtype=torch.bool), 1), 0.0), (4, 4))

# ---- attention

qkv = ((2, 2, 5, 4), (2, 2, 5, 4), (2, 2, 5, 4))
attend = F.scaled_dot_product_attention
case("attention", "plain", attend, *qkv)
case("attention", "causal", lambda q, k, v: attend(q, k, v, is_causal=True), *qkv)
case("attention", "scale", lambda q, k, v: attend(q, k, v, scale=0.3), *qkv)
case(
    "attention",
    "mask",
    lambda q, k, v, m: attend(q, k, v, attn_mask=m),
    *qkv,
    fixed(torch.tril(torch.ones(5, 5)).bool()),
)
case("attention", "float_mask", lambda q, k, v, m: attend(q, k, v, attn_mask=m), *qkv, (5, 5))
case(
    "attention",
    "batch_mask",
    lambda q, k, v, m: attend(q, k, v, attn_mask=m),
    *qkv,
    fixed(torch.tensor([[True] * 5, [True, True, True, False, False]])[:, None, None, :]),
)
case("attention", "cross", attend, (2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6))
case("attention", "three_dims", attend, (2, 3, 4), (2, 5, 4), (2, 5, 4))
case("attention", "grouped", lambda q, k, v: attend(q, k, v, enable_gqa=True), (1, 4, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4))


class Attention(nn.Module):
    def __init__(self, self_attention: bool = True, need_weights: bool = False, call: Any = None, **how: Any) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, **how)
        self.self_attention = self_attention
        self.need_weights = need_weights
        self.settings = call or {}

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> Any:
        names = ("attn_mask", "key_padding_mask")
        masks = dict(zip(names, others, strict=False))
        if "pad" in self.settings:
            masks = {"key_padding_mask": others[0]}
        k = v = x
        if not self.self_attention:
            k = v = others[0]
            masks = {}
        rest = {n: v for n, v in self.settings.items() if n != "pad"}
        out, weights = self.inner(x, k, v, need_weights=self.need_weights, **masks, **rest)
        return (out, weights) if self.need_weights else out


causal = torch.triu(torch.ones(5, 5), 1).bool()
padding = fixed(torch.tensor([[False] * 5, [False, False, False, True, True]]))
module("attention", "multihead", Attention(batch_first=True), (2, 5, 8))
module("attention", "multihead_weights", Attention(need_weights=True, batch_first=True), (2, 5, 8))
module(
    "attention",
    "multihead_each_head",
    Attention(need_weights=True, call={"average_attn_weights": False}, batch_first=True),
    (2, 5, 8),
)
module("attention", "multihead_mask", Attention(batch_first=True), (2, 5, 8), fixed(causal))
module("attention", "multihead_mask_weights", Attention(need_weights=True, batch_first=True), (2, 5, 8), fixed(causal))
module("attention", "multihead_float_mask", Attention(), (5, 2, 8), fixed(causal.float() * -3))
module("attention", "multihead_causal", Attention(call={"is_causal": True}, batch_first=True), (2, 5, 8), fixed(causal))
module("attention", "multihead_padding", Attention(call={"pad": True}, batch_first=True), (2, 5, 8), padding)
module("attention", "multihead_cross", Attention(False, batch_first=True, kdim=6, vdim=6), (2, 3, 8), (2, 5, 6))
module("attention", "multihead_no_bias", Attention(bias=False), (5, 2, 8))
module(
    "attention",
    "encoder_layer",
    nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, norm_first=True),
    (2, 5, 8),
)
module(
    "attention",
    "encoder_layer_gelu",
    nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, activation="gelu", batch_first=True),
    (2, 5, 8),
)
module(
    "attention",
    "decoder_layer",
    nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0, batch_first=True),
    (2, 3, 8),
    (2, 5, 8),
)
case(
    "attention",
    "decoder_masked",
    nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0, batch_first=True), 1),
    (2, 5, 8),
    (2, 4, 8),
    fixed(nn.Transformer.generate_square_subsequent_mask(5)),
)
