"""PULP-TrainLib's layer lists: what they become, and that it computes what the tool's own golden model computes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from trainlib_deployer.api import deploy
from trainlib_deployer.cli.convert_command import convert_command
from trainlib_deployer.convert.network import Network
from trainlib_deployer.convert.settings import read_settings
from trainlib_deployer.errors import DeployError

# As there: a choice of networks, arithmetic, a list for each property, and at the end calls of the tool's own.
SETTINGS = """
import deployer_utils.DNN_Composer as composer
project_name = 'Residual'
project_path = './'
proj_folder = project_path + project_name + '/'
epochs = 3
learning_rate = 0.25
weight_decay = 0.125
optimizer = "SGD"
loss_fn = "MSELoss"
NET = 1
if NET == 0:
    layer_list = ['linear']
elif NET == 1:
    layer_list = ['conv2d', 'Skipnode', 'ReLU', 'Sumnode', 'DW', 'PW', 'InstNorm', 'Sigmoid', 'MaxPool', 'linear']
    sumnode_connections = [0, 5, 0, 5, 0, 0, 0, 0, 0, 0]
    in_ch_list = [3, 5, 5, 5, 5, 5, 7, 7, 7, 7*2*3]
    out_ch_list = [5, 5, 5, 5, 5, 7, 7, 7, 7, 2]
    hk_list = [3, 1, 1, 1, 3, 1, 1, 1, 2, 1]
    wk_list = [3, 1, 1, 1, 3, 1, 1, 1, 2, 1]
    hin_list = [13, 7, 7, 7, 7, 5, 5, 5, 5, 1]
    win_list = [17, 9, 9, 9, 9, 7, 7, 7, 7, 1]
    h_str_list = [2, 1, 1, 1, 1, 1, 1, 1, 2, 1]
    w_str_list = [2, 1, 1, 1, 1, 1, 1, 1, 2, 1]
    h_pad_list = [1, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    w_pad_list = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    data_type_list = ['FP32', 'FP32', 'FP32', 'FP32', 'FP16', 'FP32', 'FP32', 'FP32', 'FP32', 'FP32']
    bias_list = [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    update_layer_list = [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]
NUM_CORES = 8
L1_SIZE_BYTES = 128*(2**10)
sumnode_connections = composer.AdjustResConnList(sumnode_connections)
if True: print("never run")
"""


def made(text: str, folder: Path) -> Mapping[str, Any]:
    """The names of the net.py that the settings become."""
    (folder / "TrainLib_Deployer.py").write_text(text)
    found = read_settings(folder / "TrainLib_Deployer.py")
    names: dict[str, Any] = {}
    exec(compile(Network.of(found, "there").text(), "net.py", "exec"), names)
    return names


def there(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What the tool's golden model does with the same weights, written by hand."""
    w = dict(model.named_parameters())
    functional = nn.functional
    kept = functional.conv2d(x, w["l0.weight"], w["l0.bias"], stride=2, padding=1)
    x = kept + kept.relu()
    x = functional.conv2d(x, w["l4.weight"], groups=5)
    x = functional.conv2d(x, w["l5.weight"])
    x = functional.instance_norm(x, weight=w["l6.weight"], bias=w["l6.bias"], eps=1e-10).sigmoid()
    x = functional.max_pool2d(x, 2, 2).flatten(1)
    return functional.linear(x, w["l9.weight"], w["l9.bias"])


def test_it_computes_what_the_lists_mean(tmp_path: Path) -> None:
    """Fault: the sum takes what came before the layer that keeps it, or padding of a depthwise layer is used."""
    names = made(SETTINGS, tmp_path)
    model, x = names["model"], torch.randn(1, 3, 13, 17)
    for p in model.parameters():
        nn.init.normal_(p)
    assert names["example_input"].shape == x.shape
    torch.testing.assert_close(model(x), there(model, x), rtol=0, atol=0)
    assert {n for n, p in model.named_parameters() if not p.requires_grad} == {"l0.weight", "l0.bias"}
    group = names["optimizer"].param_groups[0]
    assert (group["lr"], group["weight_decay"]) == (0.25, 0.125) and isinstance(names["loss"], nn.MSELoss)


@pytest.mark.compiler
def test_what_is_made_is_deployed_and_verified(tmp_path: Path) -> None:
    names = made(SETTINGS, tmp_path)
    kept = {k: names[k] for k in ("example_input", "example_target", "loss", "optimizer", "data")}
    result = deploy(names["model"], **kept, cores=3, l1="128k", steps=2, out=tmp_path / "out").verify()
    result.raise_if_failed()


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("TrainLib_Deployer.py").write_text(SETTINGS)
    done = CliRunner().invoke(convert_command, ["TrainLib_Deployer.py"], catch_exceptions=False)
    assert done.stdout == "trainlib-deploy --model net.py --cores 8 --l1 128k --steps 3 --run host\n"
    assert "layer 4 ('DW'): stride and padding are not used there" in done.stderr
    assert "FP16 becomes FP32" in done.stderr and Path("net.py").read_text().startswith('"""Residual, from')
    with pytest.raises(DeployError, match=r"net\.py exists"):
        CliRunner().invoke(convert_command, ["TrainLib_Deployer.py"], catch_exceptions=False)


FAULTS = {
    "layer_list = ['conv2d', 'Skipnode'": ("layer_list = ['conv3d', 'Skipnode'", "unknown kind 'conv3d'"),
    "[0, 5, 0, 5,": ("[0, 5, 0, 6,", "not connected with one other layer"),
    "in_ch_list =": ("inner =", "in_ch_list is not a list"),
    "hk_list = [3,": ("hk_list = [3.5,", "hk_list is not a list of whole numbers"),
    "bias_list = [": ("bias_list = [1] + 0 * [", "bias_list has 1 entries for 10 layers"),
    'loss_fn = "MSELoss"': ('loss_fn = "Huber"', "loss_fn 'Huber' is not known"),
    "NET = 1": ("NET = 2", "has no layer_list"),
    "epochs = 3": ("epochs = (", "is not Python"),
}


@pytest.mark.parametrize("there", FAULTS)
def test_faults_are_said(there: str, tmp_path: Path) -> None:
    here, message = FAULTS[there]
    assert SETTINGS.count(there) == 1
    with pytest.raises(DeployError, match=message):
        made(SETTINGS.replace(there, here), tmp_path)


@pytest.mark.parametrize(
    "text", ["10 ** 10 ** 10", "[0] * 10 ** 9", "open('x')", "[1, 2][3]", "1 / 0", "-'x'", "[] + 1"]
)
def test_nothing_is_run_and_nothing_explodes(text: str, tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(f"x = 3\nx = {text}\ny = x + 1\n")
    assert read_settings(tmp_path / "s.py")["y"] == 4
