"""What a kernel may rely on: queried capabilities of a device, never a vendor's name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceTraits:
    """Capabilities of one OpenCL device, as plans and templates see them.

    Every field is queried from the device (or assumed, for a device that is not here); plans
    depend on nothing else, so any device can be planned for on any machine.
    """

    is_cpu: bool = False
    compute_units: int = 8
    max_work_group_size: int = 256
    local_memory: int = 32768
    vector_bytes: int = 16
    sub_group_size: int = 1
    sub_groups: tuple[int, ...] = ()
    block_reads: bool = False
    short_block_reads: bool = False
    register_bytes: int = 1024
    fp16: bool = False
    fp64: bool = True
    integer_dots: bool = False
    # Names of matrix units (`clprim.plan.units`), and whether products of float32 in three parts
    # have float32's own error
    matrix_units: tuple[str, ...] = ()
    matrix_parts: bool = False
    prefetch: bool = False
    streaming: bool = True
    vector_trigonometry: bool = True
    function_bytes: int = 0
    estimate_bytes: int = 0
    widened_comparisons: bool = True
    byte_choices: bool = True
    long_loops: bool = True
    own_ways: bool = True
    walks: bool = False
    calls: bool = False
    spared: int = 0
    c_version: tuple[int, int] = (1, 2)
    registers: int = 0
    cores: int = 0
    l1_bytes: int = 32 << 10
    l2_bytes: int = 2 << 20
    cache_bytes: int = 4 << 20
    max_allocation: int = 1 << 30

    def lanes(self, itemsize: int) -> int:
        """How many elements of so many bytes a register has; OpenCL C's vectors end at 16."""
        return max(1, min(16, self.vector_bytes // itemsize))

    def streams(self, nbytes: int) -> bool:
        """Returns whether stores should be streaming: caches hold less than a kernel moves."""
        return self.is_cpu and self.streaming and nbytes > self.cache_bytes

    def prefetches(self, nbytes: int) -> bool:
        """Returns whether a kernel prefetches what it reads.

        Where the last cache holds what it moves, prefetches only cost.
        """
        return self.is_cpu and self.prefetch and nbytes > self.cache_bytes

    @property
    def vector_registers(self) -> int:
        """Registers of a CPU; where nobody has said, 32 that are 64 bytes wide, else 16."""
        return self.registers or (32 if self.vector_bytes >= 64 else 16)

    @property
    def few_registers(self) -> bool:
        """Whether a CPU has no more than 16."""
        return self.vector_registers <= 16

    @property
    def sums(self) -> int:
        """Vectors of sums that registers hold beside what is added to them."""
        return self.vector_registers - 4
