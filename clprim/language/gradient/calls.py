"""OpenCL C's functions on the values of a run: their types, and what vectors do in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from clprim.language.gradient import ctypes
from clprim.language.gradient.arithmetic import Arithmetic, spread
from clprim.language.gradient.derivatives import REFUSED, WHOLE
from clprim.language.gradient.terms import Term
from clprim.language.gradient.values import Reference, Refusal, Value, Vector
from clprim.language.names import UNIFIED
from clprim.language.node import Node

_VALUES = {
    "M_E": math.e,
    "M_LOG2E": math.log2(math.e),
    "M_LOG10E": math.log10(math.e),
    "M_LN2": math.log(2),
    "M_LN10": math.log(10),
    "M_PI": math.pi,
    "M_PI_2": math.pi / 2,
    "M_PI_4": math.pi / 4,
    "M_1_PI": 1 / math.pi,
    "M_2_PI": 2 / math.pi,
    "M_2_SQRTPI": 2 / math.sqrt(math.pi),
    "M_SQRT2": math.sqrt(2),
    "M_SQRT1_2": math.sqrt(0.5),
}
#: Their values, and whether they are float in a program of doubles.
BUILTIN_CONSTANTS = {
    **{name: (value, False) for name, value in _VALUES.items()},
    **{f"{name}_F": (value, True) for name, value in _VALUES.items()},
    "INFINITY": (math.inf, False),
    "NAN": (math.nan, False),
    "HUGE_VAL": (math.inf, False),
    "HUGE_VALF": (math.inf, False),
}


class FunctionCalls(Arithmetic):
    """Calls of OpenCL C's functions."""

    def builtin(self, function: str, args: Sequence[Value], node: Node) -> Value:
        """A function of OpenCL C."""
        wanted = 1 if ctypes.convert_target(function) else _ARGUMENTS.get(function, len(args))
        if len(args) != wanted:
            self.fail(node, f"{function!r} takes {wanted} arguments, {len(args)} given")
        special: Callable[..., Value] | None = getattr(self, f"_{function}", None)
        if function in _ARGUMENTS and special is not None:
            return special(args, node)
        if function in _COMPARED:
            return self.binary(_COMPARED[function], args[0], args[1], node)
        if function in _WITHOUT:
            whole = self.builtin(_WITHOUT[function], args[:1], node)
            self.store(args[1], whole, node)
            return self.binary("-", args[0], whole, node)
        to = ctypes.convert_target(function)
        if to is not None:
            plain = "_rt" not in function and "_sat" not in function
            if plain or (isinstance(args[0], Term) and ctypes.is_real(to)):
                return self.converted(args[0], to, node)
        if any(isinstance(a, Vector) for a in args):
            count = max(len(a.components) for a in args if isinstance(a, Vector))
            if function.startswith("as_") or not all(isinstance(a, Vector | Term) for a in args):
                self.fail(node, f"a gradient cannot be derived through {function!r} of vectors")
            columns = zip(*(spread(a, count) for a in args), strict=True)
            parts = [self.call_plain(function, column, node) for column in columns]
            return Vector(parts[0].ctype, tuple(parts))
        if not all(isinstance(a, Term) for a in args):
            self.fail(
                node,
                f"a gradient cannot be derived through {function!r}: "
                f"{REFUSED.get(function, 'it takes a pointer')}",
            )
        return self.call_plain(function, [a for a in args if isinstance(a, Term)], node)

    def call_plain(self, function: str, args: Sequence[Term], node: Node) -> Term:
        """A function of plain values."""
        function = "fabs" if function == "abs" and args[0].real else function
        if function == "pow" and args[1].value is not None:
            power = self.algebra.power(args[0], float(args[1].value)) if args[0].real else None
            if power is not None and args[1].value >= 1:
                return power
        if function in UNIFIED:
            ctype = ctypes.common(*(a.ctype for a in args))
        elif function in WHOLE:
            ctype = args[0].ctype if args and not args[0].real else "int"
        elif function.startswith("as_"):
            ctype = function.removeprefix("as_")
        elif to := ctypes.convert_target(function):
            ctype = to
        else:
            reals = [a.ctype for a in args if a.real]
            ctype = ctypes.common(*reals) if reals else self.terms.real
        found = self.terms.make("call", tuple(args), ctype, function)
        self.reasons.setdefault(found, Refusal("", node.span, self.part))
        return found

    # Functions that are something else in terms

    def _select(self, args: Sequence[Value], node: Node) -> Value:
        a, b, condition = args
        if not isinstance(condition, Term):
            self.fail(node, "a gradient knows no selection between components")
        return self.selected(self.truth(condition), b, a, node)

    def _sincos(self, args: Sequence[Value], node: Node) -> Value:
        self.store(args[1], self.builtin("cos", args[:1], node), node)
        return self.builtin("sin", args[:1], node)

    def store(self, pointer: Value, value: Value, node: Node) -> None:
        """Assigns what a pointer points to."""
        if not isinstance(pointer, Reference):
            self.fail(node, "expected the address of a local: &name")
        ctype = self.cell_types.get(pointer.cell, "")
        self.cells[pointer.cell] = self.converted(value, ctype, node)

    def _dot(self, args: Sequence[Value], node: Node) -> Value:
        count = max((len(a.components) for a in args if isinstance(a, Vector)), default=1)
        found: Term | None = None
        for p, q in zip(*(spread(a, count) for a in args), strict=True):
            product = self.operate("*", p, q, node)
            found = product if found is None else self.operate("+", found, product, node)
        assert found is not None
        return found

    def _length(self, args: Sequence[Value], node: Node) -> Value:
        if isinstance(args[0], Term):
            return self.builtin("fabs", args, node)
        return self.builtin("sqrt", [self._dot([args[0], args[0]], node)], node)

    def _distance(self, args: Sequence[Value], node: Node) -> Value:
        return self._length([self.binary("-", args[0], args[1], node)], node)

    def _normalize(self, args: Sequence[Value], node: Node) -> Value:
        return self.binary("/", args[0], self._length(args, node), node)

    def _cross(self, args: Sequence[Value], node: Node) -> Value:
        if not all(isinstance(a, Vector) for a in args):
            self.fail(node, "cross takes vectors")
        a, b = (spread(v, 0) for v in args)

        def minor(m: int, n: int) -> Term:
            left = self.operate("*", a[m], b[n], node)
            return self.operate("-", left, self.operate("*", a[n], b[m], node), node)

        zero = (self.number(0, self.terms.real),) * (len(a) - 3)
        return Vector(self.terms.real, (minor(1, 2), minor(2, 0), minor(0, 1), *zero))

    _fast_length, _fast_distance, _fast_normalize = _length, _distance, _normalize


#: How many arguments functions take that are something else in terms.
_ARGUMENTS = dict.fromkeys("pow dot cross distance fast_distance sincos fract modf isgreater isless"
    " isgreaterequal islessequal".split(), 2) | {"select": 3, "length": 1, "fast_length": 1,
    "normalize": 1, "fast_normalize": 1}  # fmt: skip
_COMPARED = {"isgreater": ">", "isless": "<", "isgreaterequal": ">=", "islessequal": "<="}
#: Functions that store what they leave out, by what computes that.
_WITHOUT = {"fract": "floor", "modf": "trunc"}
