"""Train a small ResNet on CIFAR-10."""
import argparse
import os
import random
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset


@dataclass
class TrainConfig:
    widths: list = field(default_factory=lambda: [6, 11])
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    epochs: int = 200
    batch_size: int = 4
    num_classes: int = 10


class FakeCIFAR(Dataset):
    """Stands in for torchvision.datasets.CIFAR10."""

    def __init__(self, n, transform=None):
        g = torch.Generator().manual_seed(0)
        self.x = torch.randint(256, (n, 3, 13, 13), generator=g, dtype=torch.uint8)
        self.y = torch.randint(10, (n,), generator=g)
        self.transform = transform

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i].float() / 255
        return (self.transform(x) if self.transform else x), int(self.y[i])


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.shortcut = nn.Sequential()
        if stride != 1 or cin != cout:
            self.shortcut = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


class ResNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = nn.Conv2d(3, cfg.widths[0], 3, 1, 1, bias=False)
        self.blocks = nn.Sequential(*[BasicBlock(a, b, 2) for a, b in zip(cfg.widths, cfg.widths[1:])])
        self.fc = nn.Linear(cfg.widths[-1], cfg.num_classes)

    def forward(self, x):
        return self.fc(F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1))


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def train_one_epoch(model, loader, criterion, optimizer, device):
    model.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    return sum((model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in loader)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=TrainConfig.epochs)
    parser.add_argument("--lr", type=float, default=TrainConfig.lr)
    parser.add_argument("--out", default="checkpoints")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    cfg = TrainConfig(epochs=args.epochs, lr=args.lr)
    set_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    normalize = lambda x: (x - 0.47) / 0.2
    train_set = FakeCIFAR(64, transform=normalize)
    train_loader = DataLoader(train_set, batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(FakeCIFAR(16, normalize), batch_size=cfg.batch_size)

    net = ResNet(cfg).to(device)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = optim.SGD(net.parameters(), lr=cfg.lr, momentum=cfg.momentum, weight_decay=cfg.weight_decay)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=cfg.epochs)

    best = 0
    os.makedirs(args.out, exist_ok=True)
    for epoch in range(cfg.epochs):
        loss = train_one_epoch(net, train_loader, criterion, optimizer, device)
        scheduler.step()
        acc = evaluate(net, test_loader, device)
        if acc > best:
            torch.save(net.state_dict(), os.path.join(args.out, "best.pt"))


if __name__ == "__main__":
    main()
