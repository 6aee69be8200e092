"""`jit`: a function over arrays as one planned computation."""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from functools import partial, update_wrapper, wraps
from types import MethodType
from typing import Any

from clprim.arrays.array import Array
from clprim.arrays.validation import flag
from clprim.call.packed import PackedWeight
from clprim.errors import DefinitionError, quoted
from clprim.graph.compiled import Compiled, Signatures
from clprim.graph.graph import Graph, Node, buffer_of
from clprim.graph.signature import Arguments, described, mapped
from clprim.graph.split import Split
from clprim.graph.trace import Trace, traced
from clprim.options import options as setting
from clprim.options import word_of
from clprim.plan.strides import elements_of
from clprim.runtime import tracing
from clprim.runtime.device import Device, current_device


class Function:
    """A compiled function; see `jit`.

    Args:
        function: What it computes.
        constants: Names of arguments that are frozen at the first call.
        fallback: Whether a function that reads on the host is split there.
        launches: How its kernels are launched.
        often: Whether each signature is going to be called again and again.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        constants: Sequence[str],
        fallback: bool,
        launches: str = "auto",
        *,
        often: bool = False,
    ) -> None:
        update_wrapper(self, function)
        self.what = getattr(function, "__name__", "function")
        self._function, self._fallback = function, fallback
        self._launches, self._often = launches, often
        self._names = _checked_constants(self.what, function, constants)
        self._frozen: dict[str, Any] = {}
        self._weights: dict[int, PackedWeight] = {}
        self._known: Signatures[Compiled | Split] = Signatures()
        self._bound: dict[int, tuple[Any, Function]] = {}
        self.__self__: Any = None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Returns the compiled function of an object whose class has it as a method."""
        if instance is None:
            return self
        bound, number = self._bound, id(instance)
        found = bound.get(number)
        if found is None or found[0]() is not instance:
            try:
                alive = weakref.ref(instance, lambda _: bound.pop(number, None))
            except TypeError:
                return MethodType(self, instance)  # the object is an argument like others
            of_object = _method(self._function, alive)
            found = bound[number] = (
                alive,
                Function(of_object, self._names, self._fallback, self._launches, often=self._often),
            )
        # What is known keeps no object alive, but a method does, as any does.
        method = copy(found[1])
        method.__self__ = instance
        return method

    def __copy__(self) -> Function:
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__)
        return found

    def __reduce__(self) -> Any:
        """Pickles what it is made of; traces are made anew where it is called."""
        if self.__self__ is not None:
            return getattr, (self.__self__, self.what)
        path = getattr(self, "__qualname__", self.what)
        found: Any = sys.modules.get(self.__module__)
        for name in path.split("."):
            found = getattr(found, name, None)
        return path if found is self else self._made_of()

    def _made_of(self) -> tuple[Any, ...]:
        given = self._function, tuple(self._names), self._fallback, self._launches
        return partial(Function, often=self._often), given

    def __repr__(self) -> str:
        return f"<clprim.jit {self.what}>"

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Calls the function; it is traced where the signature is new.

        Args:
            args: Arrays, numbers, and tuples, lists and dicts of them; whatever else can be hashed
                is a part of the signature.
            options: Likewise.

        Returns:
            What the function returns.

        Raises:
            ClprimError: What the uncompiled call raises, and what a trace cannot note.
        """
        if tracing.active.now is not None:
            return self._function(*args, **options)
        device = current_device()
        given, found = self._described(device, args, options)
        if found is not None:
            compiled = self._found(device, given, found)
            if isinstance(compiled, Compiled):
                return compiled(found.arrays)
            if compiled is not None and not compiled.over:
                try:
                    with self._setting():
                        return compiled(found.arrays, lambda: self._uncompiled(given))
                except tracing.TraceEndedError:
                    compiled.over = True
        return self._uncompiled(given)

    def explain(self, *args: Any, measure: bool = False, **options: Any) -> str:
        """Returns what a call with these arguments runs: kernels, what each fused, memory.

        Args:
            args: As of a call.
            measure: Whether to run it some times, and the device's peaks once, which takes
                seconds: kernels have their time and share of the peak then. What the call would
                write to stays as it is.
            options: Likewise.

        Raises:
            DefinitionError: The arguments run uncompiled; several graphs are to be measured.
            ClprimError: What a call raises.
        """
        from clprim.graph.explain import explained

        if not flag(self.what, "measure", measure):
            found = self._compiled(args, options)
            return found.explain() if isinstance(found, Split) else explained(found)
        device = current_device()
        _, given = self._described(device, args, options)
        whole = self._whole(args, options)
        assert given is not None
        return explained(whole, (device, [array.base_data for array in given.arrays]))

    def graph(self, *args: Any, **options: Any) -> Graph:
        """Returns the graph of a call with these arguments; its results are all arrays of these."""
        return self._whole(args, options).graph

    def draw(self, path: Any, *args: Any, **options: Any) -> None:
        """Draws the graph of a call with these arguments, before and after the passes.

        Args:
            path: Of an ``.svg`` file, or a ``.png`` where the package ``cairosvg`` is installed.
            args: As of a call.
            options: Likewise.

        Raises:
            DefinitionError: Another kind of file.
        """
        from clprim.graph.draw import draw

        compiled = self._whole(args, options)
        draw(path, compiled.traced, compiled.replay.graph)

    def _described(self, device: Device, args: Any, options: Any) -> tuple[Any, Arguments | None]:
        """Returns how to call the function with arrays in places of the constants, and the rest."""
        if self._names:
            given = inspect.signature(self._function).bind(*args, **options)
            given.apply_defaults()
            values = given.arguments
            for name in self._names:
                value = values.pop(name)
                if name not in self._frozen:
                    self._frozen[name] = _own(value)
            args, options = (), dict(values)
        found = described(self.what, device, args, options, fallback=self._fallback)
        return (args, options), found

    def _compiled(self, args: Any, options: Any) -> Compiled | Split:
        device = current_device()
        given, found = self._described(device, args, options)
        compiled = None if found is None else self._found(device, given, found)
        if compiled is None or (isinstance(compiled, Split) and compiled.over):
            raise DefinitionError(f"{self.what}: these arguments run uncompiled")
        return compiled

    def _whole(self, args: Any, options: Any) -> Compiled:
        """Returns what is one graph."""
        found = self._compiled(args, options)
        if isinstance(found, Split):
            raise DefinitionError(
                f"{self.what}: it is several graphs, between which the host reads; explain shows "
                "those of the calls so far"
            )
        return found

    def _found(self, device: Device, given: Any, found: Arguments) -> Compiled | Split | None:
        """Returns what does a call, which it makes of a new signature."""
        known = self._known.get(found.key)
        if known is not None:
            return known
        try:
            with self._setting():
                made: Compiled | Split = self._trace(device, given, found.arrays)
        except tracing.TraceEndedError as error:
            if not self._fallback:
                raise DefinitionError(
                    f"jit of {self.what}: {error.why}, at {error.line or 'an unknown line'}: a "
                    "compiled function computes on the device alone, and what it does cannot "
                    "depend on what arrays hold; jit(fallback=True) splits such a function there"
                ) from error
            made = Split(device, self.what, self._freeze_all)
        return self._known.keep(found.key, made)

    def _uncompiled(self, given: Any) -> Any:
        """Calls the function as it is, with its constants as they were at the first call."""
        args, options = given
        if not self._names:
            return self._function(*args, **options)
        bound = inspect.signature(self._function).bind_partial()
        everything = {**options, **self._frozen}
        bound.arguments = {n: everything[n] for n in bound.signature.parameters}
        return self._function(*bound.args, **bound.kwargs)

    def _setting(self) -> Any:
        """What holds where graphs are made."""
        return nullcontext() if self._launches == "auto" else setting(launches=self._launches)

    def _trace(self, device: Device, given: Any, arrays: Sequence[Any]) -> Compiled:
        trace, graph, form = traced(self.what, lambda: self._uncompiled(given), arrays)
        self._freeze_all(trace, graph.nodes)
        return Compiled(device, graph, form, often=self._often)

    def _freeze_all(self, trace: Trace, nodes: Sequence[Node]) -> None:
        """Lets the buffers of constants be ones that never change."""
        written = {buffer_of(o): n.line for n in nodes for o in (*n.writes, *n.changed)}

        def freeze(name: str, value: Any) -> None:
            if not isinstance(value, Array) or not value.size:
                return
            buffer = buffer_of(trace.operand(value))
            if buffer in written:
                raise DefinitionError(
                    f"jit of {self.what}: {written[buffer] or 'an unknown line'} writes to {name}, "
                    "which is one of constants=: leave it out of these, or copy it in the function"
                )
            buffer.weight = self._weights.setdefault(id(value.base_data), PackedWeight(value))

        for name, value in self._frozen.items():
            mapped(value, partial(freeze, name))


def _method(function: Callable[..., Any], alive: Callable[[], Any]) -> Callable[..., Any]:
    """Returns a function as a method of an object that it does not keep."""

    @wraps(function)
    def method(*args: Any, **options: Any) -> Any:
        return function(alive(), *args, **options)

    _, *rest = inspect.signature(function).parameters.values()
    method.__signature__ = inspect.Signature(rest)  # type: ignore[attr-defined]
    return method


def _own(value: Any) -> Any:
    """Returns a constant with copies of its arrays, which nobody else writes to."""
    return mapped(value, lambda each: each.copy(order="K") if isinstance(each, Array) else each)


def jit(
    function: Callable[..., Any] | None = None,
    *,
    constants: Sequence[str] = (),
    fallback: bool = False,
    launches: str = "auto",
) -> Any:
    """Compiles a function over arrays: its kernels are fused, planned in memory and replayed.

    The function is called once for every signature (shapes, dtypes, strides, which arrays share
    memory, values of numbers) and launches nothing then; what it would have launched is a graph,
    which every call replays. Arrays that it does not get as arguments are read anew with every
    call, but must stay where they are.

    Args:
        function: Plain Python over arrays, `ops`, `Pointwise` and so on; or a method of a class,
            which is compiled for every object.
        constants: Names of arguments that are frozen at the first call: what depends on them alone
            is computed once.
        fallback: Whether a function that reads on the host is split there into several graphs;
            which of them a call replays depends on what it reads. It runs as it is where that has
            had too many contents, is large, or comes after a write to memory that was there, and
            where the function does something else that cannot be traced.
        launches: ``"one"``: a kernel walks as much of the graph as can be one launch; ``"each"``:
            every kernel is launched by itself; ``"auto"``: as `cp.options` says. Results are the
            same, bit for bit.

    Returns:
        What is called as the function is; `explain` and `graph` show what it does. Without a
        function, a decorator.

    Raises:
        DefinitionError: No function, constants that are none of its arguments, or another word for
            launches.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> @cp.jit
        ... def double_relu(x, y):
        ...     return ops.relu(x + y) * 2
        >>> double_relu(cp.full(3, -1.0), cp.full(3, 3.0)).get()
        array([4., 4., 4.], dtype=float32)
    """
    if isinstance(constants, str):
        constants = (constants,)
    fallback = flag("jit", "fallback", fallback)
    launches = word_of("jit", "launches", launches)
    if function is None:
        return lambda found: Function(found, constants, fallback, launches)
    return Function(function, constants, fallback, launches)


def _checked_constants(
    what: str, function: Callable[..., Any], constants: Sequence[str]
) -> tuple[str, ...]:
    if not callable(function):
        raise DefinitionError(f"jit: expected a function, got {quoted(function)}")
    names = elements_of(constants)
    if names is None:
        raise DefinitionError(f"jit: constants={quoted(constants)}: expected names of arguments")
    if not names:
        return ()
    known = inspect.signature(function).parameters
    for name in names:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise DefinitionError(
                f"jit: constants={quoted(name)}: {what} has no such argument, but {listed}"
            )
    return names
