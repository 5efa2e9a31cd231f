import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.manual_seed(0)
N, EPOCHS, BATCH = 60, 20, 6
X = torch.randn(N, 3, 31)
y = (X.mean((1, 2)) * 20).long().clamp(0, 3)
counts = torch.bincount(y, minlength=4).clamp(min=1)
weights = counts.sum() / (4.0 * counts)

loader = DataLoader(TensorDataset(X, y), batch_size=BATCH, shuffle=True)
net = nn.Sequential(
    nn.Conv1d(3, 7, 5, padding=2), nn.BatchNorm1d(7), nn.SiLU(), nn.MaxPool1d(2),
    nn.Conv1d(7, 5, 3), nn.SiLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(5, 4),
)
model = net
criterion = nn.CrossEntropyLoss(weight=weights)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, epochs=EPOCHS, steps_per_epoch=len(loader))
history = []
for epoch in range(EPOCHS):
    model.train()
    running = 0.0
    for xb, yb in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(xb), yb)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        running += loss.item()
    history.append(running / len(loader))
    print(f"epoch {epoch}: {history[-1]:.4f}")
model.eval()
with torch.no_grad():
    acc = (model(X).argmax(1) == y).float().mean()
print("accuracy", acc.item(), "loss", loss.item(), min(history))
torch.save(model.state_dict(), "flat.pt")
