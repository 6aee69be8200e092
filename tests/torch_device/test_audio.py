"""torchaudio's modules on the device beside the CPU's."""

import pytest

from bench.peers.audio import torchaudio

torch = pytest.importorskip("torch")
peer = torchaudio()
if peer is None:
    pytest.skip("without torchaudio", allow_module_level=True)

pytestmark = [
    pytest.mark.usefixtures("strict"),
    pytest.mark.filterwarnings("ignore:At least one mel filterbank"),
]


def signal():
    torch.manual_seed(0)
    return torch.randn(2, 4000)


def compare(found, expected, tolerance=1e-4):
    assert found.device.type == "opencl" and found.shape == expected.shape
    torch.testing.assert_close(
        found.cpu(), expected, rtol=0, atol=tolerance * float(expected.abs().max())
    )


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("Spectrogram", {"n_fft": 400}),
        ("Spectrogram", {"n_fft": 512, "power": None, "normalized": True}),
        ("MelSpectrogram", {"sample_rate": 16000, "n_fft": 400, "n_mels": 40}),
        ("MelSpectrogram", {"sample_rate": 16000, "norm": "slaney", "mel_scale": "slaney"}),
        ("MFCC", {"sample_rate": 16000, "n_mfcc": 13}),
    ],
)
def test_modules(module, told):
    run, x = getattr(peer.transforms, module)(**told), signal()
    expected = run(x)
    found = run.to("opencl")(x.to("opencl"))
    if expected.is_complex():
        found, expected = torch.view_as_real(found), torch.view_as_real(expected)
    compare(found, expected, 1e-3 if module == "MFCC" else 1e-4)


def test_gradients():
    run = peer.transforms.MelSpectrogram(16000, n_mels=40)
    x = signal().requires_grad_()
    run(x).sqrt().sum().backward()
    y = signal().to("opencl").requires_grad_()
    run.to("opencl")(y).sqrt().sum().backward()
    compare(y.grad, x.grad)


@pytest.mark.filterwarnings("ignore:.*lstsq")
def test_mels_back_to_frequencies():
    import clprim.torch as ct

    ct.fallback("warn")  # least squares run on the CPU
    bank = {"n_stft": 201, "n_mels": 40, "sample_rate": 16000}
    mels = peer.transforms.MelSpectrogram(16000, n_mels=40)(signal())
    run = peer.transforms.InverseMelScale(**bank)
    expected = run(mels)
    compare(run.to("opencl")(mels.to("opencl")), expected, 1e-3)


def test_signals_of_powers():
    powers = peer.transforms.Spectrogram(400)(signal())
    run = peer.transforms.GriffinLim(400, n_iter=8, rand_init=False)
    expected = run(powers)
    compare(run.to("opencl")(powers.to("opencl")), expected, 1e-2)
