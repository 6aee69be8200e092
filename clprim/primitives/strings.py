"""What the primitives of the user's strings have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from clprim.call.arguments import as_results
from clprim.call.forms import Form
from clprim.call.primitive import Primitive
from clprim.call.scalars import check_count
from clprim.errors import shorten, titled
from clprim.language.definition import texts
from clprim.plan.kernel import Plan
from clprim.plan.strategy import NOTHING_KNOWN, Family
from clprim.plan.table import Table
from clprim.runtime.device import Device
from clprim.traits import DeviceTraits


def _type_names(types: Any) -> Any:
    if types is None or isinstance(types, np.dtype):
        return None if types is None else str(types)
    return [str(each) for each in types]


class Strings(Primitive):
    """A primitive of a definition, whose arrays are y0, …, x0, … and whose numbers are w0, ….

    Attributes:
        definition: The checked strings.
    """

    _result_type: Any = None
    _partial_type: Any = None

    def __init__(self, text: str, name: str | None, definition: Any) -> None:
        self._text = f"{type(self).__name__} {shorten(text)!r}"
        super().__init__(titled(self._text, name), type(self).__name__)
        self.definition = definition
        self.inputs: int = definition.inputs
        self.scalars: int = definition.scalars

    def __repr__(self) -> str:
        return f"<clprim.{self._text}>"

    def check(
        self,
        device: Device,
        arrays: Sequence[Any],
        numbers: Sequence[Any],
        outs: Sequence[Any],
        options: Any,
    ) -> None:
        """Refuses another number of arguments, too; see `Primitive.check`.

        Raises:
            ShapeError: Not as many as the strings name.
        """
        check_count(self.what, len(arrays) + len(numbers), self.inputs, self.scalars)
        if outs:
            none = len(outs) == 1 and outs[0] is None  # what an empty list is read as
            as_results(self.what, outs[none:], self.definition.results)
        super().check(device, arrays, numbers, outs, options)

    @property
    def form(self) -> Form:
        """See `Primitive.form`: the class's name, texts of the snippets, and names of dtypes."""
        told: dict[str, Any] = {
            "name": self.definition.name,
            "preamble": self.definition.preamble,
            "result_type": _type_names(self._result_type),
        }
        for part in ("expr", "init", "step", "combine", "finalize", "each"):
            within = getattr(self.definition, "taken", self.definition)
            snippet = getattr(self.definition, part, None) or getattr(within, part, None)
            if snippet is not None:
                told[part] = snippet.text
        if self._partial_type is not None:
            told["partial_type"] = _type_names(self._partial_type)
        return Form(self.kind, told)

    def names(self, problem: Any) -> Sequence[str]:
        """Results y0, …, then arrays x0, …."""
        results = [f"y{n}" for n in range(len(problem.results))]
        return [*results, *(f"x{n}" for n in range(len(problem.inputs)))]

    def snippets(self, problem: Any) -> Mapping[str, str]:
        """The strings."""
        del problem
        return texts(self.definition)


class Tabled(Strings):
    """Such a primitive of a family that is tuned."""

    family: ClassVar[Family[Any]]

    def planned(self, problem: Any, device: Device) -> Plan | None:
        """Plans with the tiles that tables hold."""
        from clprim.tune.ask import table_for  # it knows all families of kernels

        return self.plan(problem, device.traits, table_for(device))

    def plan(self, problem: Any, traits: DeviceTraits, table: Table = NOTHING_KNOWN) -> Plan | None:
        """See `clprim.call.primitive.Primitive.plan`."""
        if not self.launches(problem):
            return None
        return self.family.plan(problem, traits, table=table)

    def launches(self, problem: Any) -> bool:
        """Whether there is anything to compute."""
        return bool(math.prod(problem.shape))
