#!/usr/bin/env bash
# Guess: work-items that take different branches in a loop each get the result of their own branch,
#   whatever a CPU runtime makes of neighbouring work-items.
# Truth: Intel's CPU runtime joins work-items in vectors; where the branch leaves the loop with values
#   that are equal for all who took it, all of a vector get the first one's, without an error.
# Matters: to kernels that search or count by a condition of each work-item; the attribute
#   intel_vec_len_hint(1) on the kernel, or CL_CONFIG_USE_VECTORIZER=False, gives right results.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check "pyopencl==2026.1.4" "numpy==2.2.6" \
    "intel-opencl-rt==2026.2.0" "intel-cmplr-lib-rt==2026.2.0"
mkdir vendors
find "$folder/venv" -name 'libintelocl.so' | head -n 1 >vendors/intel.icd
export OCL_ICD_VENDORS="$folder/vendors" LD_LIBRARY_PATH="$folder/venv/lib" PYOPENCL_NO_CACHE=1
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import pyopencl as cl

SOURCE = """
__kernel HINT void count(__global int *y, __global const int *table, const int n)
{
    const int i = get_global_id(0);
    int sum = 0;
    for (int k = 0; k < n; ++k)
        if (i > 3)
            sum += k * sum + 1;
        else
            sum -= table[k];
    y[i] = sum;
}"""
device = next(
    device
    for platform in cl.get_platforms()
    if "Intel" in platform.name
    for device in platform.get_devices()
)
context = cl.Context([device])
queue = cl.CommandQueue(context)
print(device.name, "by", device.platform.name, device.driver_version)


def run(hint):
    program = cl.Program(context, SOURCE.replace("HINT", hint)).build()
    y = np.zeros(32, np.int32)
    memory = cl.Buffer(context, cl.mem_flags.READ_WRITE, y.nbytes)
    copied = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    table = cl.Buffer(context, copied, hostbuf=np.full(8, 2, np.int32))
    cl.Kernel(program, "count")(queue, y.shape, y.shape, memory, table, np.int32(5))
    cl.enqueue_copy(queue, y, memory)
    return y.tolist()


first, other = -10, 0
for k in range(5):
    other += k * other + 1
right = [first] * 4 + [other] * 28
joined, alone = run(""), run("__attribute__((intel_vec_len_hint(1)))")
print("right:             ", right)
print("as it is:          ", joined)
print("with the hint of 1:", alone)
as_described = joined != right and alone == right
print("as described above" if as_described else "the behaviour has changed")
sys.exit(not as_described)
PYTHON
