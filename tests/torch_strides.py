"""Strides that PyTorch's fake tensors predict of the device, and those that results have.

``python tests/torch_strides.py`` compares PyTorch's own samples (OpInfo): results and gradients, of
operands as they come, with channels last and with the last two dimensions turned. Kernels are
planned but neither compiled nor launched: no stride depends on values.
"""

from __future__ import annotations

import argparse
import contextlib
import warnings
from unittest import mock

import pyopencl as cl
import torch
from torch._subclasses import fake_tensor
from torch.utils._pytree import tree_map
from torch_conformance import dense, operators, tensors

import clprim.torch as ct
from clprim.call import launch
from clprim.call.signature import Calls

# The CPU and its own meta functions differ, or saved statistics that nothing reads.
EXCEPT = {
    "native_batch_norm", "_native_batch_norm_legit",  # evaluation: the CPU saves no elements
    "max.reduction_no_dim", "min.reduction_no_dim", "median", "nanmedian",  # fake: another formula
    "histogram", "histogramdd",  # without a meta function: what runs depends on values
}  # fmt: skip
_DYNAMIC = (
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
)


class _Kernel:
    """What is never launched."""

    def set_arg(self, *_):
        pass

    _set_arg_buf_pack_multi = set_arg


@contextlib.contextmanager
def nothing_launched():
    """Lets calls be planned and results allocated, with whatever values lie there."""

    def enqueue(self, memory, places, scalars):
        return cl.enqueue_marker(self._device.queue)

    with (
        mock.patch.object(launch, "kernel_of", lambda *_, **__: _Kernel()),
        mock.patch.object(launch.Launch, "enqueue", enqueue),
        mock.patch.object(
            cl, "enqueue_nd_range_kernel", lambda queue, *_: cl.enqueue_marker(queue)
        ),
    ):
        try:
            yield
        finally:
            Calls.forget()  # they hold what cannot be launched


def described(found):
    """Of every tensor its shape, dtype and, of the dimensions that tell, its strides."""
    told = []
    for t in found:
        steps = () if 0 in t.shape else zip(t.stride(), t.shape, strict=True)
        told.append((tuple(t.shape), t.dtype, tuple(s for s, n in steps if n != 1)))
    return told


def results(op, arguments):
    """What an operator returns and, of ones, the gradients of its tensors."""
    found = op(arguments[0], *arguments[1], **arguments[2])
    outputs = [t for t in tensors(found) if t.requires_grad]
    inputs = [t for t in tensors(arguments) if t.requires_grad]
    slopes = ()
    if outputs and inputs:
        ones = [torch.ones(t.shape, dtype=t.dtype, device=t.device) for t in outputs]
        slopes = torch.autograd.grad(outputs, inputs, ones, allow_unused=True)
    return described(tensors(found)), described(t for t in slopes if t is not None)


def _mapped(function, arguments):
    def leaf(value):
        if not isinstance(value, torch.Tensor):
            return value
        return function(value).requires_grad_(value.requires_grad)

    return tree_map(leaf, arguments)


def _turned(t):
    t = t.detach()
    return t.mT.contiguous().mT if t.ndim > 1 else t


def _last(t):
    t = t.detach()
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return t.contiguous(memory_format=formats[t.ndim]) if t.ndim in formats else t


def _copy(device):
    return lambda t: t.detach().clone().to(device)


def _fake(t):
    return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="opencl")


def differences(op, dtype, most):
    """Yields where the device and what is predicted of it differ, and counts on the way.

    Args:
        op: PyTorch's description of an operator.
        dtype: Of the samples.
        most: How many samples.
    """
    torch.manual_seed(0)
    differentiable = op.supports_autograd and dtype.is_floating_point
    samples = op.sample_inputs("cpu", dtype, requires_grad=differentiable)
    for _, sample in zip(range(most), samples, strict=False):
        if not dense(sample):
            continue
        given = (sample.input, tuple(sample.args), dict(sample.kwargs))
        for order in (torch.detach, _last, _turned):
            arguments = _mapped(order, given)
            try:
                results(op, _mapped(_copy("cpu"), arguments))
            except (RuntimeError, NotImplementedError):
                continue  # the CPU cannot
            try:
                with fake_tensor.FakeTensorMode(allow_non_fake_inputs=False):
                    predicted = results(op, _mapped(_fake, arguments))
            except _DYNAMIC:
                continue
            device = _mapped(_copy("opencl"), arguments)
            yield results(op, device), predicted


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--most", type=int, default=2, help="samples of an operator")
    parser.add_argument("--only", default="", help="part of the operators' names")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    ct.fallback("silent")
    dtype, compared = getattr(torch, given.dtype), 0
    for name, op in operators(dtype):
        if given.only not in name or name in EXCEPT:
            continue
        try:
            with nothing_launched():
                for found, predicted in differences(op, dtype, given.most):
                    compared += 1
                    if found != predicted:
                        print(f"{name}: {found}, predicted {predicted}", flush=True)
        except Exception as error:  # of values that nothing wrote, or without complex numbers
            print(f"{name}: {type(error).__name__}: {str(error)[:100]}", flush=True)
    print(f"{compared} compared")


if __name__ == "__main__":
    main()
