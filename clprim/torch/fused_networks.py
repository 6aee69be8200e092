"""Networks in eval mode whose calls are replays of what they launch."""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Hashable
from itertools import chain
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from clprim.errors import DefinitionError, quoted
from clprim.graph.explain import explained
from clprim.runtime.tracing import TraceEndedError
from clprim.torch import private
from clprim.torch.graphs import OVERLAP, Graphs, Recorded
from clprim.torch.tensors import on_device
from clprim.torch.weights import Weights

_GRADIENTS = "with gradients (torch.no_grad() computes none)"


def fuse(model: Any) -> Any:
    """Returns a copy of a network in eval mode that launches fewer kernels, one after another.

    The first call with images of a shape, dtype and memory format traces the network. What follows
    replays its kernels: batch normalisation is folded into weights, which are packed once, and
    again where they were written to (not by ``.data``, which PyTorch does not count); sums and
    activations run where something is stored. Results differ by rounding alone. On the CPU, with
    gradients and in training mode the copy runs as the network does, and says so once.

    Args:
        model: In eval mode. What it does may depend on nothing but shapes, dtypes and what its
            arguments are beside tensors; other tensors than parameters and buffers have to stay
            where they are.

    Returns:
        The copy, whose parameters take no gradient. ``forward.explain(*args)`` of it returns a
        table of the kernels that a call runs.

    Raises:
        DefinitionError: No network, or one in training mode; at a call, one that reads what tensors
            hold.

    Example:
        >>> import torch, clprim.torch
        >>> from torch import nn
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
        >>> fused = clprim.torch.fuse(net.to("opencl"))
        >>> fused(torch.ones(2, 3, 8, 8, device="opencl")).shape
        torch.Size([2, 8, 6, 6])
    """
    if not isinstance(model, torch.nn.Module):
        raise DefinitionError(f"clprim.torch.fuse: expected a network, got {quoted(model)}")
    if model.training:
        raise DefinitionError("clprim.torch.fuse: expected a network in eval mode: model.eval()")
    # PyTorch does not count what is written to tensors that the inference mode makes.
    with torch.inference_mode(False):
        made = copy.deepcopy(model).requires_grad_(False)
    made.forward = Forward(made)
    return made


class Forward:
    """What a fused network has in the place of its ``forward``."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._graphs = Graphs(type(model).__name__, Weights())
        self._are_there = True
        # What layers keep their parameters, buffers and layers in, and all of these in order.
        self._places: list[dict[str, Any]] = []
        self._things: list[Any] = []
        self._told: set[str] = set()
        self._fits = True  # whether the last call was a replay, as the next one will be

    def __reduce__(self) -> Any:
        return Forward, (self._model,)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Runs the network."""
        tensors, key, why = self._given(args, options)
        ahead = self._graphs.ahead(tensors, key) if self._fits and not why else None
        why = self._unfit() or why
        self._fits = not why
        if why:
            if why not in self._told:
                self._told.add(why)
                warnings.warn(
                    f"clprim.torch.fuse of {self._graphs.what}: {why}: it runs as the network "
                    "does, each layer by itself",
                    stacklevel=2,
                )
            return self._run(args, options)
        try:
            return self._graphs(lambda: self._run(args, options), tensors, key, ahead)
        except TraceEndedError as error:
            raise self._refused(error) from error

    def explain(self, *args: Any, **options: Any) -> str:
        """Returns what a call runs: kernels, what each fused, memory."""
        tensors, key, why = self._given(args, options)
        why = self._unfit() or why
        found: Recorded | None = None
        if not why:
            try:
                found = self._graphs.recorded(lambda: self._run(args, options), tensors, key)
            except TraceEndedError as error:
                raise self._refused(error) from error
            why = OVERLAP
        if found is None:
            raise DefinitionError(
                f"clprim.torch.fuse of {self._graphs.what}: {why}: it runs as the network does"
            )
        return explained(found)

    def _run(self, args: Any, options: Any) -> Any:
        return type(self._model).forward(self._model, *args, **options)

    def _refused(self, error: TraceEndedError) -> DefinitionError:
        return DefinitionError(
            f"clprim.torch.fuse of {self._graphs.what}: {error.why}, at "
            f"{error.line or 'an unknown line'}: what it does cannot depend on what tensors hold; "
            'torch.compile(model, backend="clprim") runs such networks in parts'
        )

    def _given(self, args: Any, options: Any) -> tuple[list[torch.Tensor], Hashable, str]:
        """Returns a call's tensors, what else decides, and why the network runs as it is."""
        plain = not options and all(type(leaf) is torch.Tensor for leaf in args)
        leaves, form = (args, len(args)) if plain else tree_flatten((args, options))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if self._model.training:
            return tensors, None, "in training mode"
        if not all(map(on_device, tensors)):
            return tensors, None, f"with arguments that are not on {private.NAME!r}"
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return tensors, None, _GRADIENTS
        rest = [None if isinstance(leaf, torch.Tensor) else _named(leaf) for leaf in leaves]
        cast = torch.is_autocast_enabled(private.NAME) and torch.get_autocast_dtype(private.NAME)
        return tensors, (tuple(rest), form, cast), ""

    def _unfit(self) -> str:
        """Looks at the network's tensors; returns why it runs as it is."""
        self._look()
        if not self._are_there:
            return f"with parameters or buffers that are not on {private.NAME!r}"
        if torch.is_grad_enabled() and any(t.requires_grad for t in self._graphs.weights.tensors):
            return _GRADIENTS
        return ""

    def _look(self) -> None:
        """Finds the network's tensors anew where one of them, or a layer, is another one."""
        # Done at every call: no loop of Python's own.
        now = [*chain.from_iterable(map(dict.values, self._places))]
        if now and len(now) == len(self._things) and all(map(operator.is_, now, self._things)):
            known = self._graphs.weights
            weights = known.now(known.tensors)
            if weights is not known:
                self._take(weights)
            return
        kinds = "_parameters", "_buffers", "_modules"
        self._places = [getattr(m, kind) for m in self._model.modules() for kind in kinds]
        self._places = [where for where in self._places if where]
        self._things = [*chain.from_iterable(map(dict.values, self._places))]
        tensors = [t for t in self._things if isinstance(t, torch.Tensor)]
        self._take(Weights([*{id(t): t for t in tensors}.values()]))

    def _take(self, weights: Weights) -> None:
        self._graphs.take(weights)
        self._are_there = all(map(on_device, weights.tensors))


def _named(value: Any) -> Hashable:
    """Returns what tells an argument that is no tensor from others."""
    if isinstance(value, float):
        return float, repr(value)  # tells 0 from -0, and NaN is itself
    try:
        hash(value)
    except TypeError:
        raise DefinitionError(
            f"clprim.torch.fuse: {quoted(value)}: arguments beside tensors have to be hashable"
        ) from None
    return type(value), value
