"""The layer lists of PULP-TrainLib's deployer as a list of layers, checked, and as the text of a `net.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainlib_deployer.errors import Unsupported, UsageError
from trainlib_deployer.machine.sizes import show_size

LISTS = {  # name there: name here, and the value where a file does not have the list
    "in_ch_list": ("inputs", None),
    "out_ch_list": ("outputs", None),
    "hk_list": ("kernel_height", 1),
    "wk_list": ("kernel_width", 1),
    "hin_list": ("height", None),
    "win_list": ("width", None),
    "h_str_list": ("stride_down", 1),
    "w_str_list": ("stride_right", 1),
    "h_pad_list": ("pad_down", 0),
    "w_pad_list": ("pad_right", 0),
    "bias_list": ("bias", 0),
    "update_layer_list": ("trained", 1),
    "sumnode_connections": ("connection", 0),
}
WINDOWED = ("conv2d", "MaxPool", "AvgPool")  # whose strides and padding the tool looks at
LEARNING = ("linear", "conv2d", "DW", "PW", "InstNorm")
LOSSES = ("MSELoss", "CrossEntropyLoss")
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """One position of all lists."""

    index: int
    kind: str
    inputs: int
    outputs: int
    kernel_height: int
    kernel_width: int
    height: int
    width: int
    stride_down: int
    stride_right: int
    pad_down: int
    pad_right: int
    bias: int
    trained: int
    connection: int

    @property
    def name(self) -> str:
        return f"l{self.index}"

    @property
    def module(self) -> str:
        """The module that the tool's own golden model makes."""
        kernel = (self.kernel_height, self.kernel_width)
        bias, strides = bool(self.bias), (self.stride_down, self.stride_right)
        padding = (self.pad_down, self.pad_right)
        modules = {
            "linear": f"nn.Linear({self.inputs}, {self.outputs}, bias={bias})",
            "conv2d": f"nn.Conv2d({self.inputs}, {self.outputs}, {kernel}, stride={strides}, padding={padding}, "
            f"bias={bias})",
            "DW": f"nn.Conv2d({self.inputs}, {self.inputs}, {kernel}, groups={self.inputs}, bias={bias})",
            "PW": f"nn.Conv2d({self.inputs}, {self.outputs}, 1, bias={bias})",
            "ReLU": "nn.ReLU()",
            "LeakyReLU": "nn.LeakyReLU()",
            "Sigmoid": "nn.Sigmoid()",
            "MaxPool": f"nn.MaxPool2d({kernel}, stride={strides})",
            "AvgPool": f"nn.AvgPool2d({kernel}, stride={strides})",
            "InstNorm": f"nn.InstanceNorm2d({self.inputs}, eps=1e-10, affine=True)",
        }
        return modules.get(self.kind, "")

    @property
    def ignored(self) -> str:
        """What the lists say and the tool does not do."""
        moved = (self.stride_down, self.stride_right) != (1, 1)
        padded = (self.pad_down, self.pad_right) != (0, 0)
        if self.kind in ("DW", "PW") and (moved or padded):
            return "stride and padding are not used there for a convolution of this kind, so they are not here"
        if self.kind in ("MaxPool", "AvgPool") and padded:
            return "padding is not used there for pooling, so it is not here"
        return ""


@dataclass(frozen=True)
class Network:
    """What a file of settings describes."""

    name: str
    layers: tuple[Layer, ...]
    settings: Mapping[str, Any] = field(repr=False)

    @staticmethod
    def of(settings: Mapping[str, Any], name: str) -> Network:
        kinds = settings.get("layer_list")
        if not isinstance(kinds, list) or not kinds:
            raise UsageError(
                f"{name} has no layer_list",
                remedy="give the TrainLib_Deployer.py in which the lists of layers are set",
            )
        columns = {here: column(settings, there, default, kinds) for there, (here, default) in LISTS.items()}
        layers = tuple(Layer(i, kind, **{k: v[i] for k, v in columns.items()}) for i, kind in enumerate(kinds))
        for layer in layers:
            check(layer, layers)
        return Network(name, layers, settings)

    @property
    def input_shape(self) -> Shape:
        first = self.layers[0]
        return (1, first.inputs) if first.kind == "linear" else (1, first.inputs, first.height, first.width)

    @property
    def loss(self) -> str:
        loss = self.settings.get("loss_fn", "MSELoss")
        if loss not in LOSSES:
            raise Unsupported(f"loss_fn '{loss}' is not known", remedy=f"one of {', '.join(LOSSES)}")
        return str(loss)

    @property
    def frozen(self) -> list[str]:
        return [layer.name for layer in self.layers if layer.kind in LEARNING and not layer.trained]

    def notes(self) -> Iterator[str]:
        """What the settings ask for that is done otherwise here."""
        for layer in self.layers:
            if layer.ignored:
                yield f"layer {layer.index} ('{layer.kind}'): {layer.ignored}"
        if "FP16" in self.settings.get("data_type_list", ()):
            yield "FP16 becomes FP32: --saved fp16 keeps activations for the backward pass in half precision"
        if self.settings.get("optimizer", "SGD") != "SGD":
            yield f"optimizer '{self.settings['optimizer']}' becomes SGD, the only one that the tool has"

    def options(self) -> str:
        """Of the command line."""
        cores, l1 = self.settings.get("NUM_CORES", 8), self.settings.get("L1_SIZE_BYTES", 65536)
        return f"--cores {cores} --l1 {show_size(int(l1))} --steps {self.settings.get('epochs', 5)}"

    def text(self) -> str:
        import jinja2  # which --help has no time for

        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent), trim_blocks=True, keep_trailing_newline=True
        )
        return environment.get_template("net.py.j2").render(
            network=self,
            rate=self.settings.get("learning_rate", 0.01),
            decay=self.settings.get("weight_decay", 0),
        )


def column(settings: Mapping[str, Any], name: str, default: int | None, kinds: list[str]) -> list[int]:
    """One list, as long as that of the layers; older files lack some."""
    values = settings.get(name, None if default is None else [default] * len(kinds))
    if not isinstance(values, list) or not all(isinstance(v, int) for v in values):
        raise UsageError(f"{name} is not a list of whole numbers")
    if len(values) < len(kinds):
        raise UsageError(f"{name} has {len(values)} entries for {len(kinds)} layers")
    return values


def check(layer: Layer, layers: tuple[Layer, ...]) -> None:
    node = layer.kind in ("Skipnode", "Sumnode")
    if not layer.module and not node:
        raise Unsupported(f"layer {layer.index} is of unknown kind '{layer.kind}'")
    others = [o for o in layers if o.connection == layer.connection and o is not layer]
    if (node and not layer.connection) or (layer.connection and len(others) != 1):
        raise UsageError(f"layer {layer.index} ('{layer.kind}') is not connected with one other layer")
    if layer.kind == "Sumnode" and others[0].index > layer.index:
        raise UsageError(f"layer {layer.index} sums what layer {others[0].index} behind it keeps")
