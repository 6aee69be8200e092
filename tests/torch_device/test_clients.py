"""Other people's libraries, those that are installed, on the device as `docs/clients.md` says."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.alone

BEGIN = """
import os, sys, tempfile, warnings
import torch
import clprim as cp, clprim.torch
from torch_models import torchvision

cp.set_device({device})
clprim.torch.fallback("error")
D, nn, folder = "opencl", torch.nn, tempfile.mkdtemp()
if {vision}:
    torchvision()
"""
CLIENTS = {
    "accelerate": """
os.environ["ACCELERATE_TORCH_DEVICE"] = D
from accelerate import Accelerator
accelerator, model = Accelerator(), nn.Linear(4, 2)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
loss = model(torch.ones(3, 4, device=accelerator.device)).sum()
accelerator.backward(loss)
optimizer.step()
found = next(model.parameters())
""",
    "safetensors": """
from safetensors.torch import load_file, save_file
save_file({"a": torch.arange(6.0, device=D)}, folder + "/file")
found = load_file(folder + "/file")["a"].to(D)
assert found.tolist() == [0, 1, 2, 3, 4, 5]
""",
    "transformers": """
os.environ |= {"ACCELERATE_TORCH_DEVICE": D, "HF_HUB_OFFLINE": "1"}
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
sizes = dict(num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
config = BertConfig(vocab_size=20, hidden_size=8, max_position_embeddings=8, **sizes)
model = BertForSequenceClassification(config)
data = [{"input_ids": torch.arange(5) + n, "labels": torch.tensor(n % 2)} for n in range(2)]
options = dict(report_to=[], save_strategy="no", disable_tqdm=True, num_train_epochs=1)
Trainer(model, TrainingArguments(folder, **options), train_dataset=data).train()
found = next(model.parameters())
""",
    "transformers: generation": """
os.environ["HF_HUB_OFFLINE"] = "1"
from transformers import CompileConfig, LlamaConfig, LlamaForCausalLM
from torch._dynamo.utils import counters
sizes = dict(num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1)
sizes |= dict(vocab_size=30, hidden_size=16, intermediate_size=24, eos_token_id=None)
config = LlamaConfig(**sizes)
model = LlamaForCausalLM(config).eval()
with torch.no_grad():
    [p.normal_(std=0.3) for p in model.parameters()]
words = torch.tensor([[3, 5, 7], [4, 2, 9]])
how = dict(do_sample=False, attention_mask=torch.ones_like(words), pad_token_id=0)
expected = model.generate(words, max_new_tokens=6, **how)
model, words = model.to(D), words.to(D)
how["attention_mask"] = how["attention_mask"].to(D)
compiling = CompileConfig(backend="clprim", mode=None, fullgraph=True, dynamic=False)
compiling._compile_all_devices = True  # transformers compiles for devices that it knows
how |= dict(cache_implementation="static", compile_config=compiling)
for _ in range(2):
    found = model.generate(words, max_new_tokens=6, **how)
    assert found.tolist() == expected.tolist()
assert counters["stats"]["unique_graphs"] == 1, counters
""",
    "lightning": """
import lightning
from clprim.torch.lightning import OneDevice
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def training_step(self, batch, index):
        return self.layer(batch).pow(2).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
quiet = dict.fromkeys("logger enable_checkpointing enable_progress_bar".split(), False)
model = Model()
before = model.layer.weight.tolist()
trainer = lightning.Trainer(max_epochs=1, strategy=OneDevice(), **quiet)
seen = []
Model.on_train_batch_end = lambda self, *_: seen.append(self.layer.weight.detach().clone())
trainer.fit(model, torch.utils.data.DataLoader(torch.ones(4, 4), 2))
found = seen[-1]
assert found.tolist() != before
""",
    "timm": """
import timm
model = timm.create_model("resnet10t", num_classes=3).to(D).eval()
found = model(torch.ones(1, 3, 32, 32, device=D))
""",
    "diffusers": """
os.environ["HF_HUB_OFFLINE"] = "1"
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
blocks = dict(down_block_types=("DownBlock2D",), up_block_types=("UpBlock2D",))
sizes = dict(sample_size=8, in_channels=1, out_channels=1, block_out_channels=(8,))
model = UNet2DModel(layers_per_block=1, norm_num_groups=4, **sizes, **blocks)
pipeline = DDPMPipeline(model, DDPMScheduler(num_train_timesteps=4)).to(D)
pipeline.set_progress_bar_config(disable=True)
assert pipeline(num_inference_steps=2, output_type="np").images.shape == (1, 8, 8, 1)
found = next(model.parameters())
""",
    "kornia": """
import kornia
found = kornia.filters.gaussian_blur2d(torch.ones(1, 1, 8, 8, device=D), (3, 3), (1.0, 1.0))
""",
    "monai": """
from monai.inferers import sliding_window_inference
from monai.losses import DiceLoss
from monai.networks.nets import UNet
model = UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,)).to(D)
y = sliding_window_inference(torch.ones(1, 1, 16, 16, device=D), (8, 8), 1, model)
found = DiceLoss(softmax=True, to_onehot_y=True)(y, torch.zeros(1, 1, 16, 16, device=D))
found.backward()
""",
    "torchmetrics": """
from torchmetrics.classification import MulticlassAccuracy
metric = MulticlassAccuracy(3).to(D)
found = metric(torch.tensor([0, 1, 2], device=D), torch.tensor([0, 1, 1], device=D))
assert found.item() == 0.5
""",
    "ultralytics": """
os.environ |= {"YOLO_OFFLINE": "1", "YOLO_CONFIG_DIR": folder}
from ultralytics.nn.tasks import DetectionModel
from ultralytics.utils.torch_utils import select_device
device = select_device(torch.device(D))
model = DetectionModel("yolov8n.yaml", ch=3, nc=2, verbose=False).to(device).eval()
found = model(torch.ones(1, 3, 32, 32, device=device))[0]
""",
}
# These import torchvision, which has kernels only beside the build of PyTorch that it was made for.
WITH_VISION = {"timm", "torchmetrics", "transformers", "ultralytics", "lightning", "diffusers"}
ENDS = "assert found.device.type == D and found.isfinite().all(), found"


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_run_on_the_device(client, device):
    package = client.partition(":")[0]
    needed = [package, *(["accelerate"] if "Trainer" in CLIENTS[client] else [])]
    if missing := [name for name in needed if find_spec(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    vision = package in WITH_VISION and find_spec("torchvision") is not None
    begin = BEGIN.format(device=device.index, vision=vision)
    tests = Path(__file__).parents[1]
    path = os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-c", begin + CLIENTS[client] + ENDS],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
