"""PyTorch's digits script, on an OpenCL device: only the name of the device is another.

    pip install "clprim[torch]" scikit-learn matplotlib

The data are scikit-learn's 1797 handwritten digits of 8 x 8 pixels. Writes the learning curve to
train_torch.png where matplotlib is installed. Everything random is drawn on the CPU from one seed,
so every device trains the same network on the same batches.
"""

import importlib.util
import sys

NEEDED = {"torch": "torch", "sklearn": "scikit-learn"}
missing = [name for module, name in NEEDED.items() if importlib.util.find_spec(module) is None]
if missing:
    print(f"this example needs {' and '.join(missing)}: pip install {' '.join(missing)}")
    sys.exit(0)

import torch  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from torch import nn  # noqa: E402

import clprim as cp  # noqa: E402
import clprim.torch  # noqa: E402

EPOCHS, BATCH = 12, 64


class Net(nn.Module):
    """Two convolutions with batch normalisation, two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.fc1 = nn.Linear(32 * 16, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.relu(self.norm1(self.conv1(x)))
        x = nn.functional.max_pool2d(nn.functional.relu(self.norm2(self.conv2(x))), 2)
        return self.fc2(nn.functional.relu(self.fc1(x.flatten(1))))


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Images between -1 and 1, and their digits."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 8 - 1
    return images, torch.tensor(digits.target)


def show(epoch: int, step: int, steps: int, loss: float) -> None:
    """A bar of one line, where somebody watches."""
    if sys.stderr.isatty():
        done = "#" * (30 * step // steps)
        print(f"\repoch {epoch:2} [{done:30}] loss {loss:.4f}", end="", file=sys.stderr, flush=True)


def draw(losses: list[float], accuracies: list[float]) -> None:
    """Writes the learning curve."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no learning curve: it needs matplotlib")
        return
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, left = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    epochs = range(1, len(losses) + 1)
    left.semilogy(epochs, losses, "o-", color="tab:blue")
    left.set(xlabel="epoch", ylabel="loss in training")
    right = left.twinx()
    right.plot(epochs, [100 * a for a in accuracies], "s-", color="tab:orange")
    right.set(ylabel="accuracy on the test set, %")
    figure.savefig("train_torch.png", dpi=120)
    print("learning curve: train_torch.png")


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("opencl")
    print(f"on {cp.current_device()}")
    clprim.torch.fallback("error")
    images, targets = data()
    order = torch.randperm(len(images))
    test, train = order[:360], order[360:]
    model = Net().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    losses, accuracies = [], []
    steps = len(train) // BATCH
    for epoch in range(1, EPOCHS + 1):
        model.train()
        total = torch.zeros((), device=device)
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (1 - (epoch - 1) / EPOCHS)
        for step, batch in enumerate(train[torch.randperm(len(train))].split(BATCH)[:steps]):
            x = images[batch].to(device, memory_format=torch.channels_last)
            y = targets[batch].to(device)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.detach()
            if step % 5 == 4 or step == steps - 1:
                show(epoch, step + 1, steps, total.item() / (step + 1))
        model.eval()
        with torch.no_grad():
            found = model(images[test].to(device, memory_format=torch.channels_last)).argmax(1)
        losses.append(total.item() / steps)
        accuracies.append((found.cpu() == targets[test]).float().mean().item())
        if sys.stderr.isatty():
            print(file=sys.stderr)
    print(f"loss {losses[0]:.3f} in the first epoch, {losses[-1]:.3f} in the last")
    print(f"test accuracy {100 * accuracies[-1]:.1f} %")
    draw(losses, accuracies)
    assert accuracies[-1] >= 0.98


if __name__ == "__main__":
    main()
