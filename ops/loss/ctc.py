"""Connectionist temporal classification (Graves and others 2006): the loss and its gradient.

All labels of a step are one kernel, and so is each step, forward and then back; what a class gets
from several labels is added up in their order. So the same inputs give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense
from clprim.arrays.creation import asarray
from clprim.dtypes import value_dtype
from clprim.errors import DTypeError, ShapeError
from clprim.ops.index.gather import check_index
from clprim.ops.loss.reduced import check_reduction
from clprim.ops.reduction.reduce import mean
from clprim.ops.reduction.reduce import sum as add_up
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, check_shape, is_array
from clprim.ops.shared.dims import whole
from clprim.ops.shared.strings import kernel

_INT64 = np.dtype(np.int64)

# Sums of three logarithms of probabilities, the first of which counts in any case.
_ADDED = """
    typeof_y0 most = fmax(fmax(a, b), c);
    typeof_y0 sum = most == -INFINITY ? -INFINITY
        : most + log(exp(a - most) + exp(b - most) + exp(c - most));
"""


class _Problem:
    """The arguments of a call, checked, and its labels with blanks between them."""

    def __init__(
        self,
        what: str,
        log_probs: Any,
        targets: Any,
        input_lengths: Any,
        target_lengths: Any,
        blank: int,
    ) -> None:
        self.what, self.dtype = what, check_floating(what, "log_probs", log_probs)
        if log_probs.ndim not in (2, 3):
            raise ShapeError(f"{what}: log_probs has shape {log_probs.shape}, expected (T, N, C)")
        self.single = log_probs.ndim == 2
        self.x = log_probs.reshape(log_probs.shape[0], 1, -1) if self.single else log_probs
        length, batch, classes = self.x.shape
        check_index(what, "targets", targets)
        self.inputs = _lengths(what, "input_lengths", input_lengths, batch, length)
        flat = targets.ndim == 1
        most = targets.shape[-1]
        self.lengths = _lengths(what, "target_lengths", target_lengths, batch, most)
        if (flat and int(self.lengths.sum()) != most) or (
            not flat and (targets.ndim != 2 or targets.shape[0] != batch)
        ):
            raise ShapeError(
                f"{what}: targets has shape {targets.shape}, expected ({batch}, S), or "
                f"({int(self.lengths.sum())},), all behind each other"
            )
        number = whole(what, "blank", blank, 0)
        if number >= classes:
            raise ShapeError(f"{what}: blank={blank} is none of {classes} classes")
        self.kind = value_dtype(self.dtype, [self.dtype])
        self.count = asarray(self.lengths)
        self.ends = asarray(self.inputs)
        begins = np.cumsum(self.lengths) - self.lengths if flat else np.arange(batch) * most
        wide = 2 * int(self.lengths.max(initial=0)) + 1
        # A label is -1 behind the last one of a sequence.
        text = """
            long s = coord(1), n = 2 * at_x2(coord(0)) + 1;
            long place = at_x1(coord(0)) + s / 2;
            place = s < n && s % 2 ? place : 0;
            y0 = s >= n ? -1 : s % 2 ? at_x0(place) : w0;"""
        if not targets.size:
            targets = asarray(np.zeros(1, np.int64))
        given = targets.reshape(-1), asarray(begins.astype(np.int64)), self.count
        self.labels = kernel(text, what, _INT64)(*given, np.int64(number), shape=(batch, wide))

    def forward(self) -> Array:
        """Returns (T, N, L): for each step and label the probability of all paths up to it."""
        x, labels = self.x, self.labels
        paths = new_dense((x.shape[0], *labels.shape), self.kind)
        read = "long k = x0; typeof_y0 p = at_x1(coord(0), k < 0 ? 0 : k);"
        text = f"{read} y0 = k < 0 || coord(1) > 1 ? -INFINITY : p;"
        kernel(text, self.what, self.kind)(labels, x[0], out=paths[0])
        text = f"""
            {read}
            long s = coord(1);
            bool skip = s > 1 && k != at_x0(coord(0), max(s - 2, 0L));
            typeof_y0 a = x2;
            typeof_y0 b = at_x2(coord(0), max(s - 1, 0L)), c = at_x2(coord(0), max(s - 2, 0L));
            b = s > 0 ? b : -INFINITY;
            c = skip ? c : -INFINITY;
            {_ADDED}
            y0 = k < 0 ? -INFINITY : sum + p;"""
        step = kernel(text, self.what, self.kind)
        for t in range(1, x.shape[0]):
            step(labels, x[t], paths[t - 1], out=paths[t])
        return paths

    def backward(self) -> Array:
        """Returns (T, N, L): likewise of all paths from it to the end, its own step included."""
        x, labels = self.x, self.labels
        paths = new_dense((x.shape[0], *labels.shape), self.kind)
        last = new_dense(labels.shape, self.kind).fill(-np.inf)
        text = f"""
            long k = x0, s = coord(1), n = 2 * at_x3(coord(0)) + 1, end = at_x4(coord(0));
            typeof_y0 p = at_x1(coord(0), k < 0 ? 0 : k);
            long second = min(s + 1, (long)size(1) - 1), third = min(s + 2, (long)size(1) - 1);
            bool skip = s + 2 < n && k != at_x0(coord(0), third);
            typeof_y0 a = x2, b = at_x2(coord(0), second), c = at_x2(coord(0), third);
            b = s + 1 < n ? b : -INFINITY;
            c = skip ? c : -INFINITY;
            {_ADDED}
            bool begins = w0 == end - 1;
            sum = begins ? (s + 2 >= n ? 0 : -INFINITY) : sum;
            y0 = k < 0 || w0 >= end ? -INFINITY : sum + p;"""
        step = kernel(text, self.what, self.kind)
        for t in reversed(range(x.shape[0])):
            given = (labels, x[t], last, self.count, self.ends)
            step(*given, np.int64(t), out=paths[t])
            last = paths[t]
        return paths

    def losses(self, paths: Array) -> Array:
        """Returns (N,): minus the logarithm of each sequence's probability."""
        text = """
            long t = at_x1(coord(0)) - 1, n = 2 * at_x2(coord(0)) + 1, s = coord(0);
            typeof_y0 a = at_x0(max(t, 0L), s, n - 1), b = at_x0(max(t, 0L), s, max(n - 2, 0L));
            b = n > 1 ? b : -INFINITY;
            typeof_y0 most = fmax(a, b);
            typeof_y0 sum = most + log(exp(a - most) + exp(b - most));
            sum = most == -INFINITY ? most : sum;
            y0 = t < 0 ? (n > 1 ? INFINITY : 0) : -sum;"""
        shape = (self.labels.shape[0],)
        return kernel(text, self.what, self.kind)(paths, self.ends, self.count, shape=shape)


@operator(
    torch="_ctc_loss_backward _ctc_loss_backward.Tensor -neg_log_likelihood -log_alpha "
    "reduction='none' @none",
    wrt="log_probs",
)
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    *,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Array:
    """Returns the loss of sequences of classes against targets without an alignment.

    Args:
        log_probs: (T, N, C) or (T, C): logarithms of probabilities, as `log_softmax` gives them.
        targets: (N, S), or all targets behind each other, of integers.
        input_lengths: How many steps each sequence has, (N,): numbers, or an array, which is
            downloaded.
        target_lengths: How many targets, likewise.
        blank: The class that stands for none.
        reduction: ``"mean"`` (of losses, each divided by how many targets), ``"sum"``, ``"none"``.
        zero_infinity: Whether losses of targets that no path reaches are 0, and not infinite.

    Returns:
        (), or with ``reduction="none"`` (N,).

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> even = cp.full((2, 1, 3), float(np.log(1 / 3)))  # two steps of three classes
        >>> target = cp.asarray(np.array([[1]]))  # 1 1, 1 -, - 1: three paths of nine
        >>> ops.ctc_loss(even, target, [2], [1]).get().round(4)
        np.float32(1.0986)
    """
    what = "ctc_loss"
    check_reduction(what, reduction)
    p = _Problem(what, log_probs, targets, input_lengths, target_lengths, blank)
    losses = p.losses(p.forward())
    text = "y0 = w0 && isinf(x0) ? 0 : x0;"
    if reduction == "mean":
        text += " y0 = y0 / max(x1, 1L);"
    given = (losses, p.count) if reduction == "mean" else (losses,)
    found: Array = kernel(text, what, p.dtype)(*given, np.int32(bool(zero_infinity)))
    if reduction == "none":
        return found.reshape(()) if p.single else found
    return mean(found) if reduction == "mean" else add_up(found)


def ctc_loss_backward(
    grad: Any,
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    *,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Array:
    """Returns the gradient of `ctc_loss` with respect to log_probs, as PyTorch has it.

    That is the one that `log_softmax_backward` hands on to the logits: probabilities are in it,
    whose sum over classes it takes away.
    """
    what = "ctc_loss_backward"
    check_reduction(what, reduction)
    p = _Problem(what, log_probs, targets, input_lengths, target_lengths, blank)
    batch = p.x.shape[1]
    shape = () if reduction != "none" or p.single else (batch,)
    check_shape(what, "grad", grad, shape)
    ahead = p.forward()
    losses = p.losses(ahead)
    scale = "1"
    if reduction == "mean":
        scale = f"1 / ((typeof_y0){batch} * max(at_x5(coord(1)), 1L))"
    text = f"""
        long end = at_x6(coord(1)), n = 2 * at_x5(coord(1)) + 1;
        typeof_y0 lp = x0, loss = at_x4(coord(1)), up = {"at_x7(coord(1))" if shape else "x7"};
        typeof_y0 sum = 0;
        for (long s = 0; s < n; ++s) {{
            typeof_y0 a = at_x1(coord(0), coord(1), s), b = at_x2(coord(0), coord(1), s);
            bool here = at_x3(coord(1), s) == coord(2) && a != -INFINITY && b != -INFINITY;
            sum += here ? exp(a + b + loss - 2 * lp) : 0;
        }}
        bool inside = coord(0) < end;
        y0 = inside ? (exp(lp) - sum * exp(lp)) * up * ({scale}) : 0;
        if (isinf(loss)) y0 = w0 ? 0 : inside ? NAN : 0;"""
    given = (p.x, ahead, p.backward(), p.labels, losses, p.count, p.ends, grad)
    numbers = np.int32(bool(zero_infinity))
    found: Array = kernel(text, what, p.dtype)(*given, numbers, shape=p.x.shape)
    return found.reshape(log_probs.shape) if p.single else found


def _lengths(what: str, label: str, given: Any, batch: int, most: int) -> Any:
    """Returns lengths as numbers on the host, which decide how long lines are."""
    if is_array(given):
        given = given.get()
    found = np.asarray(given if isinstance(given, Sequence | np.ndarray) else [given])
    if found.dtype.kind not in "iu" and found.size:
        raise DTypeError(f"{what}: expected integers for {label}, got {found.dtype}")
    found = found.astype(np.int64).reshape(-1)
    if found.shape != (batch,) or (found < 0).any() or (found > most).any():
        raise ShapeError(
            f"{what}: {label}={found.tolist()}: expected {batch} numbers from 0 to {most}"
        )
    return found
