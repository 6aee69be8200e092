"""What a kernel may rely on: queried capabilities of a device, never a vendor's name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceTraits:
    """Capabilities of one OpenCL device, as plans and templates see them.

    Every field is queried from the device (or assumed, for a device that is not here); plans
    depend on nothing else, so any device can be planned for on any machine.

    Attributes:
        is_cpu: Work-groups run on cores one after another: one work-item a tile, long loops.
        compute_units: Work-groups that run at the same time (at least).
        max_work_group_size: Work-items a work-group may have.
        local_memory: Bytes of local memory a work-group may use.
        vector_bytes: Bytes of the widest register; 64 on AVX-512, 16 on a GPU's widest load.
        sub_group_size: Work-items that run as lanes of one vector instruction; 1 where unknown.
        sub_groups: Sizes of sub-groups that a kernel may ask for and pass values between lanes of.
        block_reads: Its sub-groups read neighbouring elements of 4 bytes by one address.
        short_block_reads: Likewise of 2 bytes.
        register_bytes: Registers of a work-item, in bytes: what does not fit goes to memory.
        fp16: ``cl_khr_fp16``: half is a type to calculate in (storage never needs it).
        fp64: double is supported.
        integer_dots: Sums of four products of bytes are faster than four products
            (``cl_khr_integer_dot_product``, in OpenCL C 3.0).
        prefetch: The compiler knows how to prefetch memory.
        streaming: It knows streaming (non-temporal) stores.
        vector_trigonometry: ``sin``, ``cos`` and ``tan`` of a vector are those of its components;
            in some compilers one large component spoils the others.
        function_bytes: Bytes of the shortest vector of which functions such as ``exp`` give the
            bits that longer ones do; 0 where those of a scalar are the same.
        estimate_bytes: Likewise of ``rsqrt`` and the ``native_`` functions, which may start from
            the processor's estimates.
        widened_comparisons: A 32-bit integer that is made a 64-bit one compares with constants
            as the number that it is.
        byte_choices: ``?:`` chooses between a constant and a signed byte.
        long_loops: The loops of a work-item run to their end; some devices stop them after 65,535
            steps in all.
        own_ways: Work-items that go different ways through loops and guarded reads get what is
            theirs; in some vectorisers they get what the first one's way gives.
        c_version: OpenCL C version that the *device* compiles, as (major, minor).
        registers: Vector registers of a CPU; 0 where it is to follow from their width.
        cores: Cores whose threads the compute units of a CPU are; 0 where that is not known.
        l1_bytes, l2_bytes: Of a core's own caches, on a CPU; on a GPU the first is that of a unit,
            where its driver betrays it.
        cache_bytes: Data larger than this is assumed to come from memory.
        max_allocation: Bytes of the largest buffer.
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
    prefetch: bool = False
    streaming: bool = True
    vector_trigonometry: bool = True
    function_bytes: int = 0
    estimate_bytes: int = 0
    widened_comparisons: bool = True
    byte_choices: bool = True
    long_loops: bool = True
    own_ways: bool = True
    c_version: tuple[int, int] = (1, 2)
    registers: int = 0
    cores: int = 0
    l1_bytes: int = 32 << 10
    l2_bytes: int = 2 << 20
    cache_bytes: int = 4 << 20
    max_allocation: int = 1 << 30

    def lanes(self, itemsize: int) -> int:
        """Returns how many elements of so many bytes a register has; OpenCL C's vectors end at 16.

        Args:
            itemsize: Bytes of an element.
        """
        return max(1, min(16, self.vector_bytes // itemsize))

    def streams(self, nbytes: int) -> bool:
        """Returns whether stores should be streaming: caches hold less than a kernel moves.

        Args:
            nbytes: That it reads and writes.
        """
        return self.is_cpu and self.streaming and nbytes > self.cache_bytes

    def prefetches(self, nbytes: int) -> bool:
        """Returns whether a kernel prefetches what it reads.

        Where the last cache holds what it moves, prefetches only cost.

        Args:
            nbytes: That it reads and writes.
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
