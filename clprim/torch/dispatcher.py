"""What runs for an overload of PyTorch's on the device: entries of its dispatcher."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from clprim.torch.private import KEY, NAME, opaque

_aten = torch.ops.aten
# A registration ends with its library.
_libraries: list[Any] = []
_kernels: dict[str, Callable[..., Any]] = {}
_fallback: list[Callable[..., Any]] = []


def _library(name: str, kind: str = "IMPL") -> Any:
    made = torch.library.Library(name, kind)
    _libraries.append(made)
    return made


_overloads = _library("aten")


def _falls_to(key: str, function: Callable[..., Any]) -> None:
    """Registers what runs for every overload that has nothing for a key."""
    _library("_").fallback(function, key)


def register_kernel(name: str, function: Callable[..., Any]) -> None:
    """Registers what runs for an overload, as ``add.Tensor``, of tensors on the device."""
    _kernels[name] = opaque(function)
    _overloads.impl(name, function, KEY)


def sees_lazy(name: str) -> None:
    """Lets an overload have tensors whose elements are conjugated or negated when they are read."""
    for key in ("Conjugate", "Negative"):
        _overloads.impl(name, torch.library.fallthrough_kernel, key)


def register_composite(name: str, function: Callable[..., Any]) -> None:
    """Registers what an overload is made of on the device, where PyTorch makes it of others."""
    for key in (KEY, f"Autograd{KEY}"):
        _overloads.impl(name, opaque(function), key)


def register_fake(name: str, function: Callable[..., Any]) -> None:
    """Registers what tells the shapes and strides of an overload's results, computing nothing."""
    packet, _, which = name.partition(".")
    overload = getattr(getattr(_aten, packet), which or "default")
    rules: Any = torch._subclasses.fake_impls.op_implementations_dict
    before = rules.get(overload)

    def original(mode: Any, *args: Any, **options: Any) -> Any:
        if before is not None:
            return before(mode, overload, *args, **options)
        with torch._subclasses.fake_tensor.in_kernel_invocation_manager(mode):
            found = overload(*args, **options)
        flat = torch.utils._pytree.tree_leaves((args, options))
        return mode.wrap_meta_outputs_with_default_device_logic(found, overload, flat, None)

    def run(mode: Any, _: Any, *args: Any, **options: Any) -> Any:
        given = (*args, *options.values())
        if any(isinstance(a, torch.Tensor) and a.device.type == NAME for a in given):
            meta = partial(original, mode)
            with mode:
                return function(meta, *args, **options)
        return NotImplemented if before is None else before(mode, overload, *args, **options)

    rules[overload] = run


def register_autograd(name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replaces PyTorch's formula of an overload by what is made of the overload without a gradient.

    It is called where PyTorch differentiates, whether anything wants a gradient or not.
    """
    overload = getattr(_aten, name).default

    def plain(*args: Any, **options: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return overload(*args, **options)

    _overloads.impl(name, opaque(make(plain)), f"Autograd{KEY}")


def single_level(
    plain: Callable[..., Any],
    setup: Callable[..., None],
    backward: Callable[..., Any],
    jvp: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Returns an overload with a gradient of its own.

    It is a function of one level, as transforms of `torch.func` call it once for each of theirs.
    """

    def forward(*args: Any) -> Any:
        # What transforms do further out is differentiated too.
        with torch.enable_grad(), torch.autograd.forward_ad._set_fwd_grad_enabled(True):
            return plain(*args)

    parts = {"forward": forward, "setup_context": setup, "backward": backward, "jvp": jvp}
    members = {name: staticmethod(part) for name, part in parts.items() if part is not None}
    kind: Any = type("Differentiated", (torch.autograd.function._SingleLevelFunction,), members)

    def run(*args: Any) -> Any:
        with torch._functorch.autograd_function.enable_single_level_autograd_function():
            return kind.apply(*args)

    return run


def compose_with_tangents(functions: dict[str, Callable[..., Any]]) -> None:
    """Registers what overloads are made of while there are tangents, which they hand none on.

    It is done when the first level of tangents begins: until then nothing stands before them.
    """
    forward: Any = torch.autograd.forward_ad
    first = forward.enter_dual_level

    def enter_dual_level() -> Any:
        if not torch.compiler.is_compiling() and forward.enter_dual_level is not first:
            forward.enter_dual_level = first
            for name, function in functions.items():
                composed = partial(_composed, getattr(_aten, name).default, function)
                _overloads.impl(name, opaque(composed), f"Autograd{KEY}")
        return first()

    forward.enter_dual_level = enter_dual_level


def _composed(overload: Any, function: Callable[..., Any], *args: Any) -> Any:
    """Runs a function in a level of tangents, else an overload with PyTorch's own formula."""
    if torch.autograd.forward_ad._current_level >= 0:
        return function(*args)
    return by_own_formula(overload, *args)


def by_own_formula(overload: Any, *args: Any) -> Any:
    """Runs an overload, differentiated as PyTorch differentiates it on other devices."""
    c: Any = torch._C
    keys = c._dispatch_tls_local_include_set()
    for value in args:
        if isinstance(value, torch.Tensor):
            keys = keys | c._dispatch_keys(value)
    keys = keys - c._dispatch_tls_local_exclude_set()
    for nothing in ("AutogradPrivateUse1", "BackendSelect", "ADInplaceOrView"):
        keys = keys.remove(getattr(c.DispatchKey, nothing))
    # Formulas are registered for all devices: that of others is this one's as well.
    return overload.redispatch(keys.add(c.DispatchKey.AutogradOther), *args)


def define(schema: str, function: Callable[..., Any], meta: Callable[..., Any]) -> Any:
    """Defines an operator of the device's own, and returns it."""
    library = _library("clprim", "FRAGMENT")
    name = library.define(schema)
    library.impl(name, function, KEY)
    library.impl(name, meta, "Meta")
    return getattr(torch.ops.clprim, name).default


def register_fallback(function: Callable[..., Any]) -> None:
    """Registers what runs for every overload that has no kernel; it gets the overload first."""
    _fallback.append(function)

    def latest(*args: Any, **options: Any) -> Any:
        return _fallback[-1](*args, **options)  # PyTorch takes one registration alone

    _falls_to(KEY, opaque(latest))


def wrap_kernels(wrap: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replaces every kernel, and the fallback, by what is made of its name and itself."""
    library = _library("aten")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there was one before is known
        for name, function in _kernels.items():
            library.impl(name, opaque(wrap(name, function)), KEY, allow_override=True)
    _fallback.append(wrap("", _fallback[-1]))


def register_autocast(name: str, function: Callable[..., Any]) -> None:
    """Registers what runs for an overload while autocast is on."""
    _overloads.impl(name, opaque(function), f"Autocast{KEY}")


def nested_falls_to(function: Callable[..., Any]) -> None:
    """Registers what is called, with the overload, where one meets nested tensors of rows."""
    _falls_to(f"NestedTensor{KEY}", opaque(function))


def autocast_falls_through() -> None:
    """Lets all other overloads run under autocast as they do without it."""
    _falls_to(f"Autocast{KEY}", torch.library.fallthrough_kernel)


def replace_collectives(make: Callable[[Any], Callable[..., Any]]) -> None:
    """Replaces what the operators between processes, ``torch.ops.c10d``, do with the device."""
    library = _library("c10d")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there was one before is known
        for schema in torch._C._jit_get_all_schemas():
            if schema.name.startswith("c10d::") and has_kernel(schema.name, KEY):
                name = schema.name.removeprefix("c10d::")
                run = opaque(make(getattr(torch.ops.c10d, name).default))
                library.impl(name, run, KEY, allow_override=True)
