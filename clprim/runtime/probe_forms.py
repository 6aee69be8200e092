"""Whether short vectors have functions of the bits of long ones; asked by `runtime.probe`."""

from __future__ import annotations

import numpy as np
import pyopencl as cl

from clprim.runtime.probe_times import kernel_of

#: Bytes of the vectors that are asked for, up to a device's widest; a scalar of float is the first.
#: Of the widest it is asked whether a compiler survives its functions.
SIZES = (4, 8, 16, 32, 64)
# By kind; what a library computes has few forms, so that some functions stand for all.
_FUNCTIONS = {"functions": ("exp", "atan"), "estimates": ("rsqrt", "native_rsqrt", "native_exp")}
# One work-item, as compilers make vectors of several; the argument is the same in all components.
_SOURCE = """
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void probe(__global int *a)
{{
    int differ = 0;
    for (volatile int k = 0; k < 1000; ++k) {{
        const float t = (k + a[0]) * 0.0137f + 0.001f;
        {body}
    }}
    a[1] = differ;
}}"""
_FLOATS = "differ |= as_int({f}(({short[0]})t){short[1]}) ^ as_int({f}(({wide[0]})t){wide[1]});\n"
_DOUBLES = (
    "#ifdef cl_khr_fp64\n"
    "differ |= any(as_int2({f}(({short[0]})t){short[1]}) != as_int2({f}(({wide[0]})t){wide[1]}));\n"
    "#endif\n"
)
#: What the answers follow from, but for the device.
FORMS = (_SOURCE, _FLOATS, _DOUBLES, _FUNCTIONS, SIZES)
KINDS = tuple(_FUNCTIONS)


def keeps_bits(queue: cl.CommandQueue, kind: str, size: int, widest: int) -> bool:
    """Tells whether functions of vectors of so many bytes have the bits of a device's widest."""
    body = ""
    for function in _FUNCTIONS[kind]:
        for form, item, name in ((_FLOATS, 4, "float"), (_DOUBLES, 8, "double")):
            if name == "double" and function.startswith("native_"):
                continue
            counts = size // item, widest // item
            short, wide = ((f"{name}{n}", ".s0") if n > 1 else (name, "") for n in counts)
            body += form.format(f=function, short=short, wide=wide)
    kernel = kernel_of(queue, _SOURCE.format(body=body))
    result = np.array([0, 1], np.int32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory = cl.Buffer(queue.context, flags, hostbuf=result)
    kernel.set_arg(0, memory)
    cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
    cl.enqueue_copy(queue, result, memory)
    return bool(result[1] == 0)
