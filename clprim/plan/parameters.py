"""Collects the parameters of a kernel, and what each of them is given."""

from __future__ import annotations

from collections.abc import Sequence

from clprim.plan.kernel import CALL, SEED, Argument, Buffer, Parameter, Scalar, ScalarCode


class Arguments:
    """A kernel's parameters and arguments, in order."""

    def __init__(self, index: str) -> None:
        self.index = index
        self.parameters: list[Parameter] = []
        self.arguments: list[Argument] = []

    def copy(self) -> Arguments:
        """Returns what there is so far, to go on from in another way."""
        found = Arguments(self.index)
        found.parameters, found.arguments = [*self.parameters], [*self.arguments]
        return found

    def memory(
        self, type_name: str, name: str, buffer: str = "", *, read_only: bool = True
    ) -> None:
        """Adds a buffer of the call."""
        self.parameters.append(Parameter.memory(type_name, name, read_only=read_only))
        self.arguments.append(Buffer(buffer or name.removesuffix("_memory")))

    def scalar(self, type_name: str, name: str, number: int) -> None:
        """Adds the call's run-time scalar of that number."""
        self.parameters.append(Parameter.number(type_name, name))
        self.arguments.append(Scalar(number))

    def scalars(self, codes: Sequence[ScalarCode]) -> None:
        """Adds the call's run-time scalars w0, w1, … as snippets find them."""
        for n, code in enumerate(codes):
            prefix = "arg_" if code.value == "bool" else ""
            self.scalar(code.argument, prefix + code.name, n)

    def random(self) -> None:
        """Adds the seed and the number of the call, which end the call's numbers."""
        for name, given in (("cp_seed", SEED), ("cp_call", CALL)):
            self.parameters.append(Parameter.number("ulong", name))
            self.arguments.append(given)

    def numbers(self, **values: int) -> None:
        """Adds sizes and strides."""
        for name, value in values.items():
            self.parameters.append(Parameter.number(self.index, name))
            self.arguments.append(value)
