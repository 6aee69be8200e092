"""`docs/operators.md` is made from the code: signatures, dtypes that are taken, gradients, peers.

Which dtypes an operator takes is found by planning calls with arrays of no elements; the tests of
operators build and run the kernels.
``python -m pytest tests/project/test_operators_page.py --update-golden`` rewrites it.
"""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from support import DTYPES

import clprim as cp
from clprim import ops
from clprim.call import launch
from clprim.call.signature import Calls

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operators.md"
HEAD = """# Operators

All of `clprim.ops`, by family; names, arguments and meaning are PyTorch's where it has them. This
page is made from the code (`tests/project/test_operators_page.py`).

Arrays may have any strides, and so every memory format; a result has that of the first array with
all its dimensions. *dtypes*: what the first array may hold; `float` is float16, bfloat16, float32
and float64 (where the device has it), `int` all integers of 8 to 64 bits. *gradient*: the operator
that computes it, or what it is. *checked against*: what the operator's tests compare it with.

"""
FAMILIES = {
    "elementwise": "Elementwise",
    "reduction": "Reductions",
    "scan": "Scans",
    "product": "Products of matrices",
    "conv": "Convolutions",
    "norm": "Normalisations",
    "pool": "Pooling",
    "sample": "Interpolation",
    "index": "By index",
    "shape": "Shapes",
    "random": "Random numbers",
    "loss": "Losses",
    "attention": "Attention",
}
INDEX = np.zeros((0, 3), np.int64)
# Calls with an array of shape (0, 3, 4, 4) of every dtype, where the array alone is not enough.
SAMPLES = {
    "addcdiv": lambda f, x: f(x, x, x),
    "addcmul": lambda f, x: f(x, x, x),
    "batch_norm": lambda f, x: f(x, *[cp.empty(3, _like(x))] * 2),
    "bilinear": lambda f, x: f(x, x, cp.empty((2, 4, 4), x.dtype)),
    "cat": lambda f, x: f([x, x]),
    "stack": lambda f, x: f([x, x]),
    "channel_shuffle": lambda f, x: f(x, 3),
    "clamp": lambda f, x: f(x, 0, 1),
    "chunk": lambda f, x: f(x, 2),
    "conv1d": lambda f, x: f(x[:, 0], cp.empty((2, 4, 3), x.dtype)),
    "conv3d": lambda f, x: f(_image(x, 3), cp.empty((2, 3, 2, 2, 2), x.dtype)),
    "conv_transpose1d": lambda f, x: f(x[:, 0], cp.empty((4, 2, 3), x.dtype)),
    "conv_transpose3d": lambda f, x: f(_image(x, 3), cp.empty((3, 2, 2, 2, 2), x.dtype)),
    "conv2d": lambda f, x: f(x, cp.empty((2, 3, 3, 3), x.dtype)),
    "conv_transpose2d": lambda f, x: f(x, cp.empty((3, 2, 3, 3), x.dtype)),
    "depth_to_space": lambda f, x: f(x.transpose(0, 2, 3, 1), 2),
    "diag": lambda f, x: f(x[:, 0, 0]),
    "embedding": lambda f, x: f(cp.asarray(INDEX), cp.empty((2, 3), x.dtype)),
    "embedding_bag": lambda f, x: f(cp.asarray(INDEX), cp.empty((2, 3), x.dtype)),
    "fold": lambda f, x: f(x[..., 0], (1, 6), (1, 3)),
    "gather": lambda f, x: f(x, 1, cp.empty((0, 3, 4, 4), np.int64)),
    "grid_sample": lambda f, x: f(x, cp.empty((0, 2, 2, 2), x.dtype)),
    "group_norm": lambda f, x: f(x, 3),
    "index": lambda f, x: f(x, (None, cp.empty(2, np.int64))),
    "index_select": lambda f, x: f(x, 1, cp.empty(2, np.int64)),
    "layer_norm": lambda f, x: f(x, 4),
    "rms_norm": lambda f, x: f(x, 4),
    "local_response_norm": lambda f, x: f(x, 2),
    "lerp": lambda f, x: f(x, x, 0.5),
    "linear": lambda f, x: f(x, cp.empty((2, 4), x.dtype)),
    "masked_fill": lambda f, x: f(x, cp.empty(4, bool), 1),
    "meshgrid": lambda f, x: f(x[:, 0, 0, 0]),
    "one_hot": lambda f, x: f(x, 3),
    "pad": lambda f, x: f(x, (1, 1), "reflect"),
    "quantize": lambda f, x: f(x, 1),
    "dequantize": lambda f, x: f(x, 1),
    "prelu": lambda f, x: f(x, cp.empty(3, x.dtype)),
    "pixel_shuffle": lambda f, x: f(x.transpose(0, 2, 3, 1), 2),
    "pixel_unshuffle": lambda f, x: f(x, 2),
    "space_to_depth": lambda f, x: f(x, 2),
    "repeat": lambda f, x: f(x, 1, 1, 2, 2),
    "repeat_interleave": lambda f, x: f(x, 2, 1),
    "roll": lambda f, x: f(x, 1, 1),
    "split": lambda f, x: f(x, 2, 1),
    "take": lambda f, x: f(x, cp.asarray(INDEX)),
    "take_along_dim": lambda f, x: f(x, cp.empty((0, 3, 4, 2), np.int64), 3),
    "threshold": lambda f, x: f(x, 0, 1),
    "tile": lambda f, x: f(x, 2),
    "unfold": lambda f, x: f(x, 2),
    "affine_grid": lambda f, x: f(cp.empty((1, 2, 3), x.dtype), (1, 1, 2, 2)),
    "interpolate": lambda f, x: f(x, 8, mode="bilinear"),
    "where": lambda f, x: f(x, x, x),
    "addmm": lambda f, x: f(x[:, 0, 0], x[:, 0, 0], _empty(x, 4, 4)),
    "addmv": lambda f, x: f(x[:, 0, 0, 0], x[:, 0, 0], _empty(x, 4)),
    "addbmm": lambda f, x: f(_empty(x, 4, 4), x[:, 0], x[:, 0]),
    "baddbmm": lambda f, x: f(x[:, 0], x[:, 0], x[:, 0]),
    "bmm": lambda f, x: f(x[:, 0], x[:, 0]),
    "mm": lambda f, x: f(x[:, 0, 0], _empty(x, 4, 4)),
    "mv": lambda f, x: f(x[:, 0, 0], _empty(x, 4)),
    "einsum": lambda f, x: f("ij,jk->ik", x[:, 0, 0], _empty(x, 4, 4)),
    "block_diag": lambda f, x: f(x[:, :, 0, 0]),
    "conv1d_input": lambda f, x: f((0, 4, 4), _empty(x, 2, 4, 3), _empty(x, 0, 2, 2)),
    "conv1d_weight": lambda f, x: f(x[:, 0], (2, 4, 3), _empty(x, 0, 2, 2)),
    "conv2d_input": lambda f, x: f(x.shape, _empty(x, 2, 3, 3, 3), _empty(x, 0, 2, 2, 2)),
    "conv2d_weight": lambda f, x: f(x, (2, 3, 3, 3), _empty(x, 0, 2, 2, 2)),
    "conv3d_input": lambda f, x: f(
        (0, 3, 4, 4, 4), _empty(x, 2, 3, 2, 2, 2), _empty(x, 0, 2, 3, 3, 3)
    ),
    "conv3d_weight": lambda f, x: f(_image(x, 3), (2, 3, 2, 2, 2), _empty(x, 0, 2, 3, 3, 3)),
    "cross": lambda f, x: f(x, x, 1),
    "dropout1d": lambda f, x: f(x[:, 0]),
    "gaussian_nll_loss": lambda f, x: f(x, x, x, reduction="none"),
    "index_fill": lambda f, x: f(x, 1, cp.empty(2, np.int64), 1),
    "index_put": lambda f, x: f(x, (cp.asarray(INDEX[:, 0]),), x),
    "masked_scatter": lambda f, x: f(x, cp.empty(4, bool), x),
    "multi_head_attention_forward": lambda f, x: f(
        *[x[..., 0]] * 3, 4, 2, _empty(x, 12, 4), *[None] * 3, False, 0.0, _empty(x, 4, 4), None
    ),
    "renorm": lambda f, x: f(x, 2, 1, 1),
    "rotary_embedding": lambda f, x: f(x, _empty(x, 4, 2), _empty(x, 4, 2)),
    "scatter_reduce": lambda f, x: f(x, 1, cp.empty((0, 3, 4, 4), np.int64), x, "sum"),
    **{name: lambda f, x: f(x, 1, 1) for name in ("kthvalue", "topk")},
    **{name: lambda f, x: f(x, 1) for name in ("median", "nanmedian")},
    **{name: lambda f, x: f(x, 0.5, 1) for name in ("nanquantile", "quantile")},
    **{f"lp_pool{n}d": lambda f, x, n=n: f(_image(x, n), 2, 2) for n in (1, 2, 3)},
    **{f"max_pool{n}d": lambda f, x, n=n: f(_image(x, n), 2) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": lambda f, x, n=n: f(_image(x, n), 2) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": lambda f, x, n=n: f(_image(x, n), 2) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": lambda f, x, n=n: f(_image(x, n), 2) for n in (1, 2, 3)},
    **{
        f"fractional_max_pool{n}d": lambda f, x, n=n: f(
            _image(x, n), 2, 2, random_samples=cp.empty((0, 3, n))
        )
        for n in (2, 3)
    },
    **{
        f"max_unpool{n}d": lambda f, x, n=n: f(
            _image(x, n), cp.empty(_image(x, n).shape, np.int64), 2
        )
        for n in (1, 2, 3)
    },
    "cross_entropy": lambda f, x: f(x, cp.empty((0, 4, 4), np.int64), reduction="none"),
    "nll_loss": lambda f, x: f(x, cp.empty((0, 4, 4), np.int64), reduction="none"),
    **{name: lambda f, x: f(x, dim=1) for name in ("softmax", "log_softmax", "softmin")},
    **{
        name: lambda f, x: f(x, x, reduction="none")
        for name in (
            "binary_cross_entropy binary_cross_entropy_with_logits hinge_embedding_loss huber_loss "
            "kl_div l1_loss mse_loss poisson_nll_loss smooth_l1_loss soft_margin_loss"
        ).split()
    },
    "margin_ranking_loss": lambda f, x: f(x, x, x, reduction="none"),
    "triplet_margin_loss": lambda f, x: f(x, x, x, reduction="none"),
    "triplet_margin_with_distance_loss": lambda f, x: f(x, x, x, reduction="none"),
    "multi_margin_loss": lambda f, x: f(x[:, :, 0, 0], cp.empty(0, np.int64)),
    "multilabel_margin_loss": lambda f, x: f(x[:, :, 0, 0], cp.empty((0, 3), np.int64)),
    "pdist": lambda f, x: f(x[:, :, 0, 0]),
    "scaled_dot_product_attention": lambda f, x: f(x, x, x),
    "lstm_cell": lambda f, x: f(*_cell(x, 8, pair=True)),
    "gru_cell": lambda f, x: f(*_cell(x, 6)),
    **{name: lambda f, x: f(*_cell(x, 2)) for name in ("rnn_relu_cell", "rnn_tanh_cell")},
    **{
        name: lambda f, x: f(x, 1, cp.empty((0, 3, 4, 4), np.int64), x)
        for name in ("scatter", "scatter_add")
    },
    **{
        name: lambda f, x: f(x, 1, cp.empty(3, np.int64), x) for name in ("index_add", "index_copy")
    },
    **{
        name: lambda f, x: f(x, axis=1)
        for name in (
            "all any amax amin argmax argmin count_nonzero logsumexp mean prod sum var_mean "
            "cumsum cumprod cummax cummin logcumsumexp unbind flip"
        ).split()
    },
}
DERIVED = {
    "channel_shuffle": "itself",
    "frac": "the result's own",
    "cat": "`cat_backward`",
    "conv1d": "`conv1d_input`, `conv1d_weight`",
    "conv3d": "`conv3d_input`, `conv3d_weight`",
    "conv2d": "`conv2d_input`, `conv2d_weight`, `conv2d_bias`",
    "conv_transpose1d": "`conv1d`, `conv1d_weight`",
    "conv_transpose2d": "`conv2d`, `conv2d_weight`",
    "conv_transpose3d": "`conv3d`, `conv3d_weight`",
    "multi_head_attention_forward": "`multi_head_attention_backward`",
    "depth_to_space": "`space_to_depth`",
    "pixel_shuffle": "`pixel_unshuffle`",
    "pixel_unshuffle": "`pixel_shuffle`",
    "space_to_depth": "`depth_to_space`",
    "tril": "itself",
    "triu": "itself",
    "batch_norm_train": "`batch_norm_backward`",
}


def _like(x):
    return x.dtype if x.dtype.kind not in "biu" else np.float32


def _empty(x, *shape):
    return cp.empty(shape, x.dtype)


def _cell(x, height, *, pair=False):
    h = _empty(x, 0, 2)
    return x[:, 0, 0], (h, h) if pair else h, _empty(x, height, 4), _empty(x, height, 2)


def _image(x, ndim):
    return cp.empty((0, 3, 4, 4, 4)[: ndim + 2], x.dtype)


def _dtypes(name):
    """What the first array may hold, in few words; nothing where there is no array."""
    function = getattr(ops, name)
    taken = []
    for dtype in DTYPES:
        x = cp.empty((0, 3, 4, 4), dtype)
        calls = [SAMPLES[name]] if name in SAMPLES else [lambda f, x: f(x), lambda f, x: f(x, x)]
        for call in calls:
            try:
                call(function, x)
            except cp.DTypeError:
                continue
            except Exception as error:  # a guess need not fit, whatever it meets
                if name in SAMPLES:
                    raise AssertionError(f"the sample of {name} is none: {error}") from error
                continue
            taken.append(dtype)
            break
    floats = [d.name for d in DTYPES if d in taken and d.kind not in "biu"]
    whole = [d.name for d in DTYPES if d in taken and d.kind in "iu"]
    words = ["float"] if len(floats) == 4 else floats
    words += ["int"] if len(whole) == 8 else whole
    words += ["bool"] if np.dtype(bool) in taken else []
    return ", ".join(words)


def _peers():
    """The operators that a file of tests names, and what it compares them with."""
    found = {}
    for file in sorted((ROOT / "tests" / "ops").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        peer = "PyTorch" if re.search(r'import torch|skip\("torch"', text) else "NumPy"
        for name in re.findall(r"\bops\.(\w+)", text) + re.findall(r'"(\w+)"', text):
            found.setdefault(name, set()).add(peer)
    return found


def _page():
    peers = _peers()
    families = {}
    for name in ops.__all__:
        function = getattr(ops, name)
        if inspect.ismodule(function) or name.endswith("_backward"):
            continue
        module = inspect.getmodule(inspect.unwrap(function)).__name__
        families.setdefault(module.split(".")[2], []).append(name)
    titles = {**FAMILIES, **{f: f.capitalize() for f in sorted(families) if f not in FAMILIES}}
    parts = [HEAD]
    for family, title in titles.items():
        if family not in families:
            continue
        parts.append(f"## {title}\n\n| operator | dtypes | gradient | checked against |\n")
        parts.append("|---|---|---|---|\n")
        for name in families[family]:
            gradient = f"`{name}_backward`" if f"{name}_backward" in ops.__all__ else ""
            gradient = DERIVED.get(name, gradient)
            peer = ", ".join(sorted(peers.get(name, ())))
            parts.append(f"| `{name}` | {_dtypes(name)} | {gradient} | {peer} |\n")
        parts.append("\n")
    return "".join(parts).rstrip("\n") + "\n"


class Planned:
    """A kernel that is not built; it takes any argument."""

    def set_arg(self, *_):
        pass

    _set_arg_buf_pack_multi = set_arg


@pytest.fixture
def nothing_is_built(monkeypatch):
    monkeypatch.setattr(launch, "kernel_of", lambda *_, **__: Planned())
    monkeypatch.setattr(launch.Launch, "enqueue", lambda *_: None)
    yield
    Calls.forget()


def test_page_is_what_the_code_says(nothing_is_built, request):
    page = _page()
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page, "run again with --update-golden"
