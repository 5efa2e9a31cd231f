"""Networks for EEG and other signals: `braindecode`, temporal convolutions, spiking networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.suites.networks import Make, Network, of


def eeg(name: str, chans: int = 8, times: int = 256, sfreq: int = 128, **options: Any) -> Make:
    def make() -> Network:
        from braindecode import models

        made = getattr(models, name)(n_chans=chans, n_outputs=4, n_times=times, sfreq=sfreq, **options)
        return of(made, (2, chans, times))

    return make


def tcn() -> Network:
    """The usual block, which holds each convolution under two names."""

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv1d(inputs, outputs, 3, padding=2 * dilation, dilation=dilation)
            self.conv2 = nn.Conv1d(outputs, outputs, 3, padding=2 * dilation, dilation=dilation)
            self.relu = nn.ReLU()
            self.net = nn.Sequential(
                nn.utils.parametrizations.weight_norm(self.conv1),
                Chomp(2 * dilation),
                self.relu,
                nn.utils.parametrizations.weight_norm(self.conv2),
                Chomp(2 * dilation),
                self.relu,
            )
            self.downsample = nn.Conv1d(inputs, outputs, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.relu(self.net(x) + self.downsample(x))

    class Chomp(nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.size = size

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, :, : -self.size].contiguous()

    return of(nn.Sequential(Block(3, 8, 1), Block(8, 8, 2), Block(8, 5, 4)), (2, 3, 37))


def pytorch_tcn() -> Network:
    from pytorch_tcn import TCN

    return of(TCN(num_inputs=3, num_channels=[8, 12], kernel_size=3, dropout=0.0), (2, 3, 37))


def leaky() -> Network:
    """Two layers of leaky neurons over the steps of a signal."""
    import snntorch

    class Spiking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(7, 11), nn.Linear(11, 5)
            self.lif1, self.lif2 = snntorch.Leaky(beta=0.9), snntorch.Leaky(beta=0.8, learn_beta=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
            found = []
            for t in range(x.shape[1]):
                spikes, mem1 = self.lif1(self.fc1(x[:, t]), mem1)
                spikes, mem2 = self.lif2(self.fc2(spikes), mem2)
                found.append(mem2)
            return torch.stack(found, 1)

    return of(Spiking(), (3, 6, 7))


def hidden_leaky(kind: str, kept: bool = False, **options: Any) -> Make:
    """A layer of neurons with a state of its own: new in each step, or kept from one to the next."""

    def make() -> Network:
        import snntorch

        class Spiking(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.net = nn.Sequential(
                    nn.Linear(7, 11), getattr(snntorch, kind)(init_hidden=True, **options), nn.Linear(11, 5)
                )

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                layer = self.net[1]
                if kept:
                    layer.mem = layer.mem.detach()
                else:
                    layer.reset_mem()  # utils.reset finds no copies, which eager PyTorch is given here
                return torch.stack([self.net(x[:, t]) for t in range(x.shape[1])], 1)

        return of(Spiking(), (3, 6, 7))

    return make


NETWORKS: dict[str, Make] = {
    "TCN": tcn,
    "pytorch_tcn TCN": pytorch_tcn,
    "snntorch Leaky": leaky,
    "snntorch Leaky, hidden state": hidden_leaky("Leaky", beta=0.9),
    "snntorch Leaky, state kept": hidden_leaky("Leaky", kept=True, beta=0.9),
    "snntorch Synaptic": hidden_leaky("Synaptic", alpha=0.8, beta=0.9),
    "snntorch Alpha": hidden_leaky("Alpha", alpha=0.9, beta=0.8),
    "snntorch Lapicque": hidden_leaky("Lapicque", beta=0.9),
    "braindecode AttnSleep": eeg("AttnSleep", chans=1, times=3000, sfreq=100),
}
NETWORKS |= {
    f"braindecode {name}": eeg(name)
    for name in (
        "EEGNet",
        "EEGNeX",
        "EEGConformer",
        "EEGTCNet",
        "EEGInceptionERP",
        "EEGITNet",
        "EEGSimpleConv",
        "ATCNet",
        "AttentionBaseNet",
        "CTNet",
        "ContraWR",
        "Deep4Net",
        "FBCNet",
        "FBLightConvNet",
        "FBMSNet",
        "IFNet",
        "MSVTNet",
        "PBT",
        "SCCNet",
        "ShallowFBCSPNet",
        "SPARCNet",
        "SSTDPN",
        "SincShallowNet",
        "SyncNet",
        "TCFormer",
        "TIDNet",
        "TSception",
    )
}
