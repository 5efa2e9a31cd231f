from functools import partial

import torch
from torch import nn
import torch.nn.functional as F


class ConvBNAct(nn.Sequential):
    def __init__(self, cin, cout, k=3, act=nn.Hardswish):
        super().__init__(nn.Conv2d(cin, cout, k, padding=k // 2, bias=False), nn.BatchNorm2d(cout), act())


class MultiTask(nn.Module):
    def __init__(self, width, n_classes, n_boxes):
        super().__init__()
        self.stem = ConvBNAct(1, width)
        self.down = nn.MaxPool2d(2)
        self.body = ConvBNAct(width, width + 3)
        self.cls_head = nn.Linear(width + 3, n_classes)
        self.box_head = nn.Linear(width + 3, 4 * n_boxes)
        self.obj_head = nn.Linear(width + 3, n_boxes)

    def forward(self, x):
        f = self.body(self.down(self.stem(x))).mean(dim=(2, 3))
        return {"cls": self.cls_head(f), "boxes": self.box_head(f).sigmoid(), "obj": self.obj_head(f)}


class MultiTaskLoss(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.weights = weights
        self.ce, self.bce = nn.CrossEntropyLoss(), nn.BCEWithLogitsLoss()

    def forward(self, out, target):
        losses = {
            "cls": self.ce(out["cls"], target["cls"]),
            "boxes": F.smooth_l1_loss(out["boxes"], target["boxes"]),
            "obj": self.bce(out["obj"], target["obj"]),
        }
        return sum(self.weights[k] * v for k, v in losses.items())


def build_model(width: int = 5, n_classes: int = 3, n_boxes: int = 2) -> nn.Module:
    model = MultiTask(width, n_classes, n_boxes)
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out")
    return model


def make_batch(n=3):
    target = {"cls": torch.randint(3, (n,)), "boxes": torch.rand(n, 8), "obj": torch.randint(2, (n, 2)).float()}
    return torch.randn(n, 1, 14, 10), target


loss = MultiTaskLoss({"cls": 1.0, "boxes": 5.0, "obj": 0.5})
optimizer = partial(torch.optim.RMSprop, lr=1e-3, momentum=0.9)
data = [make_batch() for _ in range(5)]
