"""Networks that are compared with the CPU: torchvision's, timm's, transformers', others; small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from bench.models import torchvision


class UNet(nn.Module):
    """Two levels down and up again, with skips."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()

        def block(inputs, outputs):
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
            )  # fmt: skip

        self.down1, self.down2 = block(3, width), block(width, 2 * width)
        self.middle = block(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.right2 = block(4 * width, 2 * width)
        self.up1 = nn.Upsample(scale_factor=2, mode="bilinear")
        self.right1 = block(3 * width, width)
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(nn.functional.max_pool2d(first, 2))
        middle = self.middle(nn.functional.max_pool2d(second, 2))
        up = self.right2(torch.cat([self.up2(middle), second], 1))
        return self.last(self.right1(torch.cat([self.up1(up), first], 1)))


class Sequence(nn.Module):
    """A recurrent network of two layers in both directions, and a linear one."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.memory = kind(10, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.last = nn.Linear(32, 4)

    def forward(self, x):
        return self.last(self.memory(x)[0])


class Translation(nn.Module):
    """An encoder and a decoder with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Transformer(
            d_model=32, nhead=4, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=48,
            batch_first=True,
        )  # fmt: skip

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=x.dtype, device=x.device)
        return self.net(x, x[:, :5], tgt_mask=mask)


@dataclass(frozen=True)
class Network:
    """How a network is made, and the shape of its input.

    Attributes:
        make: Makes it, with random weights.
        shape: Of the input.
        words: How many different ones an input of words has; 0 for numbers.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    words: int = 0

    def input(self) -> torch.Tensor:
        """Returns a random input."""
        return torch.randint(self.words, self.shape) if self.words else torch.randn(self.shape)


def vision(name: str) -> Callable[[], nn.Module]:
    """A network of torchvision's, with random weights and ten classes."""

    def make():
        models = torchvision().models
        options = {"weights": None, "num_classes": 10}
        if name in ("googlenet", "inception_v3"):
            options |= {"aux_logits": name == "googlenet", "init_weights": True}
        if name.startswith("deeplab"):
            return models.segmentation.deeplabv3_resnet50(weights_backbone=None, **options)
        if name == "vit_b_16":
            options["image_size"] = 48
        if name == "maxvit_t":  # with windows for a small image
            return models.maxvit.MaxVit(
                input_size=(64, 64), stem_channels=64, partition_size=2, head_dim=32,
                block_channels=[64, 128, 256, 512], block_layers=[2, 2, 5, 2],
                stochastic_depth_prob=0.0, num_classes=10,
            )  # fmt: skip
        return getattr(models, name)(**options)

    return make


SIZES = {
    "alexnet": 64, "resnet18": 64, "resnet50": 96, "convnext_tiny": 48, "convnext_small": 48,
    "vgg16": 32, "squeezenet1_0": 48, "googlenet": 96, "densenet161": 96, "inception_v3": 160,
    "shufflenet_v2_x1_0": 64, "mobilenet_v2": 64, "mobilenet_v3_large": 64,
    "mobilenet_v3_small": 64, "resnext50_32x4d": 96, "wide_resnet50_2": 96, "mnasnet1_0": 96,
    "efficientnet_b0": 64, "efficientnet_b4": 64, "regnet_y_400mf": 64, "vit_b_16": 48,
    "swin_t": 64, "maxvit_t": 64, "deeplabv3_resnet50": 64,
}  # fmt: skip
NETWORKS = {name: Network(vision(name), (2, 3, size, size)) for name, size in SIZES.items()}
NETWORKS |= {
    "U-Net": Network(UNet, (2, 3, 20, 24)),
    "nn.LSTM": Network(lambda: Sequence(nn.LSTM), (2, 7, 10)),
    "nn.GRU": Network(lambda: Sequence(nn.GRU), (2, 7, 10)),
    "nn.Transformer": Network(Translation, (2, 6, 32)),
}


class Text(nn.Module):
    """A network of transformers', of words; one with a decoder gets words there too."""

    def __init__(self, net: nn.Module, *, decoder: bool = False) -> None:
        super().__init__()
        self.net, self.decoder = net, decoder

    def forward(self, x):
        more = {"decoder_input_ids": x[:, :5]} if self.decoder else {}
        return self.net(input_ids=x, use_cache=False, return_dict=False, **more)[0]


class Sound(nn.Module):
    """Whisper, with the words so far."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("words", torch.arange(10).reshape(2, 5))

    def forward(self, x):
        given = {"input_features": x, "decoder_input_ids": self.words}
        return self.net(**given, use_cache=False, return_dict=False)[0]


class Noise(nn.Module):
    """A network of diffusers', at a step of time and under a condition."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("time", torch.tensor([3, 50]))
        self.register_buffer("condition", torch.randn(2, 6, 16))

    def forward(self, x):
        return self.net(x, self.time, self.condition, return_dict=False)[0]


def timm(name: str, size: int) -> Callable[[], nn.Module]:
    """A network of timm's, for images of a size where it has to know."""

    def make():
        torchvision()
        import timm

        fixed = name.startswith(("levit", "mixer", "vit", "deit", "coatnet"))
        more = {"img_size": size} if fixed else {}
        return timm.create_model(name, num_classes=10, **more)

    return make


def transformer(name: str) -> Callable[[], nn.Module]:
    """A network of transformers', of two layers."""

    def make():
        torchvision()
        import transformers as hf

        usual = {"vocab_size": 50, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
        sides = {
            f"{side}_{what}": n
            for side in ("encoder", "decoder")
            for what, n in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 48))
        }
        match name:
            case "BERT":
                return Text(hf.BertModel(hf.BertConfig(**usual, **sizes, intermediate_size=48)))
            case "GPT-2":
                sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 16}
                return Text(hf.GPT2LMHeadModel(hf.GPT2Config(**usual, **sizes)))
            case "Llama":
                sizes |= {"num_key_value_heads": 1, "intermediate_size": 48}
                return Text(hf.LlamaForCausalLM(hf.LlamaConfig(**usual, **sizes)))
            case "T5":
                sizes = {"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2}
                net = hf.T5ForConditionalGeneration(hf.T5Config(**usual, **sizes))
                return Text(net, decoder=True)
        limits = {"max_source_positions": 20, "max_target_positions": 20, "num_mel_bins": 8}
        more = {"d_model": 32, "decoder_start_token_id": 1, **limits}
        config = hf.WhisperConfig(**usual, **sides, **more)
        return Sound(hf.WhisperForConditionalGeneration(config))

    return make


def unet_of_diffusers() -> nn.Module:
    """With attention to a condition, as Stable Diffusion's."""
    torchvision()
    import diffusers

    net = diffusers.UNet2DConditionModel(
        sample_size=16, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), cross_attention_dim=16,
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), attention_head_dim=8,
    )  # fmt: skip
    return Noise(net)


TIMM = {
    "resnet10t": 64, "convnextv2_atto": 64, "mobilenetv4_conv_small": 64, "ghostnet_100": 160,
    "hrnet_w18_small": 64, "repvgg_a0": 64, "tf_efficientnetv2_b0": 64, "eca_nfnet_l0": 64,
    "levit_128s": 64, "mobilevit_xxs": 64, "edgenext_xx_small": 64, "pvt_v2_b0": 64,
    "poolformer_s12": 64, "mixer_s32_224": 64,
}  # fmt: skip
NETWORKS |= {name: Network(timm(name, size), (2, 3, size, size)) for name, size in TIMM.items()}
TEXTS = ("BERT", "GPT-2", "T5", "Llama")
NETWORKS |= {name: Network(transformer(name), (2, 8), words=50) for name in TEXTS}
NETWORKS |= {
    "Whisper": Network(transformer("Whisper"), (2, 8, 40)),
    "UNet2DConditionModel": Network(unet_of_diffusers, (2, 4, 16, 16)),
}


def prepared(model: nn.Module) -> nn.Module:
    """The model without dropout, whose random numbers differ, and without parameters of zeros."""
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(std=0.02)
    for module in model.modules():
        if "Dropout" in type(module).__name__ or type(module).__name__ == "StochasticDepth":
            module.p = 0.0
        for name in ("dropout", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model
