# cores=3 l1=24k
"""PyTorch copies the output of a recurrent layer: what comes after it may write to it."""

import torch
from torch import nn

torch.manual_seed(342)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(5, 7, batch_first=True)
        self.lstm = nn.LSTM(7, 3, 2, bidirectional=True)
        self.act = nn.LeakyReLU(0.2, True)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        x = self.act(self.rnn(x)[0])
        y, (h, c) = self.lstm(x)
        h *= 0.7
        c[0] += 0.3
        return self.head(self.act(y)[:, -1]) + h.sum() * c.sum()


model = Net()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(torch.randn(2, 3, 5), torch.randint(4, (2,))) for _ in range(2)]
