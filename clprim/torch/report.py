"""What of PyTorch's core operators has a kernel."""

from __future__ import annotations

import torch

from clprim.text_table import format_table
from clprim.torch import on_cpu, table


def coverage() -> dict[str, bool]:
    """Prints which of PyTorch's core operators have a kernel, and returns it by overload.

    Returns:
        Of every overload of the core set (``torch.Tag.core``), whether it runs on the device.
    """
    found: dict[str, bool] = {}
    for name in sorted(dir(torch.ops.aten)):
        packet = getattr(torch.ops.aten, name)
        for which in packet.overloads() if hasattr(packet, "overloads") else ():
            overload = getattr(packet, which)
            if torch.Tag.core in overload.tags:
                full = name if which == "default" else f"{name}.{which}"
                found[full] = full in table.registered
    ours = sum(found.values())
    print(f"{ours} of {len(found)} core overloads have a kernel; {len(table.registered)} in all")
    rows = sorted(on_cpu.counts.items(), key=lambda entry: -entry[1])
    if rows:
        print(format_table(["ran on the CPU", "times"], rows))
    return found
