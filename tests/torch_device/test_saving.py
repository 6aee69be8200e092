"""Every way of saving a model that lies on the device, and of loading it there or elsewhere."""

import copy
import io

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("strict")

D = "opencl"


class Tied(torch.nn.Module):
    """Two layers of one weight, a buffer that is a part of another one, and their own weights."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 2, bias=False)
        self.second = torch.nn.Linear(3, 2)
        self.last = torch.nn.Linear(2, 2)
        self.second.weight = self.first.weight
        whole = torch.arange(8.0)
        self.register_buffer("whole", whole)
        self.register_buffer("part", whole[2:6:2])
        for n, p in enumerate(self.parameters()):
            p.data = torch.arange(float(p.numel())).reshape(p.shape) + n

    def forward(self, x):
        return self.last(self.first(x) + self.second(x)) + self.part + self.whole[:2]


X = torch.tensor([[1.0, 2, 3]])
EXPECTED = Tied()(X)


def same(model, device=D):
    assert {t.device.type for t in model.state_dict().values()} == {device}
    assert torch.equal(model(X.to(device)).cpu(), EXPECTED)


def zeroed():
    model = Tied().to(D)
    with torch.no_grad():
        for t in model.state_dict().values():
            t.zero_()
    return model


def reread(save, model, load, **options):
    file = io.BytesIO()
    save(model, file)
    file.seek(0)
    return load(file, **options)


def test_whole_models_and_their_states():
    model = Tied().to(D)
    same(copy.deepcopy(model))
    same(reread(torch.save, model, torch.load, weights_only=False))
    state = reread(torch.save, model.state_dict(), torch.load)
    assert state["first.weight"].data_ptr() == state["second.weight"].data_ptr()
    for where in (None, D, "cpu"):
        found = zeroed()
        found.load_state_dict(
            reread(torch.save, model.state_dict(), torch.load, map_location=where)
        )
        same(found)
    same(reread(torch.save, model, torch.load, weights_only=False, map_location="cpu"), "cpu")


@pytest.mark.filterwarnings("ignore")
def test_programs_of_torchscript():
    for made in (torch.jit.script(Tied().to(D)), torch.jit.trace(Tied().to(D), X.to(D))):
        for where in (None, D):
            same(reread(torch.jit.save, made, torch.jit.load, map_location=where))
        same(reread(torch.jit.save, made, torch.jit.load, map_location="cpu"), "cpu")
    of_cpu = torch.jit.script(Tied())
    same(reread(torch.jit.save, of_cpu, torch.jit.load, map_location=D))
    same(of_cpu.to(D))


def test_programs_of_torch_export():
    program = torch.export.export(Tied().to(D), (X.to(D),))
    found = reread(torch.export.save, program, torch.export.load)
    same(found.module())


@pytest.mark.filterwarnings("ignore")
def test_packages():
    package = pytest.importorskip("torch.package")
    file = io.BytesIO()
    with package.PackageExporter(file) as exporter:
        exporter.extern("**")
        exporter.save_pickle("models", "model.pkl", Tied().to(D))
    file.seek(0)
    same(package.PackageImporter(file).load_pickle("models", "model.pkl"))


@pytest.mark.filterwarnings("ignore")
def test_distributed_checkpoints(tmp_path):
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    from torch.distributed.checkpoint._state_dict_stager import StateDictStager

    state = Tied().to(D).state_dict()
    checkpoint.save(state, checkpoint_id=tmp_path, no_dist=True)
    found = zeroed()
    checkpoint.load(found.state_dict(), checkpoint_id=tmp_path, no_dist=True)
    same(found)
    staged = StateDictStager().stage(state)  # what async_save writes while training goes on
    found = zeroed()
    found.load_state_dict(staged)
    same(found)
    assert {t.device.type for t in staged.values()} == {"cpu"}


def test_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    model, file = Tied().to(D), tmp_path / "a.safetensors"
    with pytest.raises(RuntimeError, match=r"share memory.*(first|second)\.weight"):
        safetensors.save_file(model.state_dict(), file)
    safetensors.save_model(model, str(file))
    found = zeroed()
    safetensors.load_model(found, file)
    same(found)
    names = ("first.weight", "last.weight")
    safetensors.save_file({n: model.state_dict()[n] for n in names}, file)
    loaded = safetensors.load_file(file)
    assert all(torch.equal(loaded[n], model.state_dict()[n].cpu()) for n in names)


def test_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 11, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config).eval().to(D)
    words = torch.tensor([[1, 2, 3]]).to(D)
    model.save_pretrained(tmp_path)
    expected = model(words).logits
    found = transformers.GPT2LMHeadModel.from_pretrained(tmp_path).eval().to(D)
    assert torch.equal(found(words).logits, expected)
    assert found.lm_head.weight is found.transformer.wte.weight
    assert len({t.data_ptr() for t in model.state_dict().values()}) == 16


def test_accelerate(tmp_path, monkeypatch):
    accelerate = pytest.importorskip("accelerate")
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", D)
    accelerator = accelerate.Accelerator()
    model = accelerator.prepare(Tied())
    for safe in (True, False):
        accelerator.save_state(tmp_path / str(safe), safe_serialization=safe)
        with torch.no_grad():
            for p in model.parameters():
                p.zero_()
        accelerator.load_state(tmp_path / str(safe))
        same(model)
        accelerator.save_model(model, tmp_path / f"model {safe}", safe_serialization=safe)
    found = zeroed()
    accelerate.load_checkpoint_in_model(found, str(tmp_path / "model False/pytorch_model.bin"))
    same(found)
