"""Plants faults in plans, templates and operators, one at a time, and asks the suite to find each.

    python tests/faults.py            # all of them; the numbers of some may follow

A child process runs the few tests that should notice; golden files and texts take no part, so what
is asked is whether *results* give a fault away. Not a test itself: it takes some minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CHOSEN = "CLPRIM_FAULT"


class Fault(NamedTuple):
    """A change of one file, and the tests that should fail for it.

    Attributes:
        name: What is wrong.
        file: Below the root.
        right, wrong: Text, and what takes its place where it stands first.
        tests: Arguments of pytest.
    """

    name: str
    file: str
    right: str
    wrong: str
    tests: str


STORE = "templates/_store.cl.jinja"
TILE = "templates/product/_parts.cl.jinja"
LOWERING = "clprim/plan/conv/lowering.py"
CONV = "tests/ops/conv/test_conv.py -k any_convolution"
MATMUL = "tests/ops/product/test_matmul.py -k"
DEPTHWISE = "tests/ops/conv/test_depthwise.py -k"
WINOGRAD = "tests/ops/conv/test_winograd.py -k"
LOCAL = "tests/ops/conv/test_winograd_local.py -k"
REDUCTION = "tests/primitives/test_reduction.py -k"
MAP = "tests/primitives/test_pointwise.py -k"

FAULTS = (
    Fault("a dropped bias", STORE, "y0 += bias;", ";", f"{MATMUL} bias"),
    Fault("an old result that is lost", STORE, "y0 += beta", "y0 = beta", f"{MATMUL} beta_adds"),
    Fault(
        "a tile's columns past the end",
        TILE,
        "outputs - column);",
        "outputs - column + 1);",
        "tests/ops/conv/test_memory.py -k nothing_beside",
    ),
    Fault(
        "rows that two tiles share, stored twice",
        TILE,
        "for (int j = {{ from }}; j < rows_left; ++j)",
        "for (int j = 0; j < rows_left; ++j)",
        "tests/ops/conv/test_memory.py -k overlap",
    ),
    Fault(
        "a packed operand's tail",
        "templates/product/pack.cl.jinja",
        "min((index_t){{ L }}, lanes - tile * {{ L }})",
        "min((index_t){{ L }}, lanes - tile * {{ L }} - 1)",
        f"{MATMUL} forms",
    ),
    Fault(
        "the first split of a sum",
        "templates/product/panels_finish.cl.jinja",
        "split = 0; split < splits",
        "split = 1; split < splits",
        f"{MATMUL} cut",
    ),
    Fault(
        "the last split of a tile's sum",
        "templates/product/tiles_finish.cl.jinja",
        "split < splits",
        "split + 1 < splits",
        "tests/ops/product/test_tile_strategy.py",
    ),
    Fault(
        "depth past the end of a tile",
        "templates/product/_tiles.cl.jinja",
        "' + k < end)'",
        "' + k <= end)'",
        "tests/ops/product/test_tile_strategy.py",
    ),
    Fault(
        "padding that is read",
        "templates/product/in_place.cl.jinja",
        "const bool inside = (uint)r < (uint)height;",
        "const bool inside = r < height;",
        f"{CONV} -k any_convolution",
    ),
    Fault(
        "the stride of rows",
        LOWERING,
        "(p.x.image, h.stride * p.x.row, v.stride * p.x.column)",
        "(p.x.image, p.x.row, v.stride * p.x.column)",
        CONV,
    ),
    Fault(
        "the dilation of columns",
        LOWERING,
        "(h.dilation * p.x.row, v.dilation * p.x.column, p.x.channel)",
        "(h.dilation * p.x.row, p.x.column, p.x.channel)",
        CONV,
    ),
    Fault(
        "the step between groups",
        LOWERING,
        "            channels * p.x.channel,\n",
        "            p.x.channel,\n",
        CONV,
    ),
    Fault(
        "a phase of a transposed stride",
        LOWERING,
        "remainder + axis.before - first * d",
        "remainder + axis.before + first * d",
        "tests/ops/conv/test_transpose.py -k any_transposed",
    ),
    Fault(
        "sums in the storage's precision",
        "ops/product/arguments.py",
        "value = value_dtype(result, [result])",
        "value = result",
        "tests/ops/conv/test_conv.py -k single_precision",
    ),
    Fault(
        "the taps of a depthwise weight",
        "templates/depthwise/pack.cl.jinja",
        "x_row",
        "x_column",
        f"{DEPTHWISE} any_depthwise",
    ),
    Fault(
        "rows above a plane",
        "templates/depthwise/_parts.cl.jinja",
        "if ((uint)from_row >= (uint)x_rows)",
        "if (from_row >= (int)x_rows)",
        f"{DEPTHWISE} any_depthwise",
    ),
    Fault(
        "the last split of a weight's gradient",
        "templates/depthwise/weight/finish.cl.jinja",
        "split < splits",
        "split + 1 < splits",
        f"{DEPTHWISE} every_gradient",
    ),
    Fault(
        "the last line of a Winograd tile",
        "templates/conv/winograd/_parts.cl.jinja",
        "(int)y_rows - tile_line",
        "(int)y_rows - 1 - tile_line",
        f"{WINOGRAD} every_size",
    ),
    Fault(
        "the point at infinity of Winograd's algorithm",
        "clprim/plan/conv/winograd/transform.py",
        "weight.append([Fraction(j == r - 1)",
        "weight.append([Fraction(j == r - 2)",
        f"{WINOGRAD} every_size",
    ),
    Fault(
        "the last column of an image that tiles in local memory cover",
        "templates/conv/winograd/local.cl.jinja",
        "column + j < y_columns",
        "column + j + 1 < y_columns",
        f"{LOCAL} every_size",
    ),
    Fault(
        "what a tile in local memory reads beside its image",
        "templates/conv/winograd/local.cl.jinja",
        "&& column_{{ j }} ? pixels",
        "? pixels",
        f"{LOCAL} every_size",
    ),
    Fault(
        "transformed weights of channels that are not there",
        "templates/conv/winograd/local_weight.cl.jinja",
        "channel < channels && output",
        "output",
        f"{LOCAL} every_size",
    ),
    Fault(
        "the tail of a row",
        "templates/pointwise/elements.cl.jinja",
        "for (; i < stop; ++i)",
        "for (; i + 1 < stop; ++i)",
        f"{MAP} tails",
    ),
    Fault(
        "loops merged that do not follow each other",
        "clprim/plan/strides.py",
        "outer == step * inner.size",
        "outer >= step * inner.size",
        f"{MAP} views_in",
    ),
    Fault(
        "the remainder of a reduced row",
        "templates/reduction/inner.cl.jinja",
        "for (e += lane; e < stop; e += {{ L }})",
        "for (e += lane; e + 1 < stop; e += {{ L }})",
        f"{REDUCTION} any_subset",
    ),
    Fault(
        "columns that two tiles share, added twice",
        "templates/reduction/columns.cl.jinja",
        "const index_t from = min(own, width - {{ U * V }});",
        "const index_t from = min(own, width);",
        f"{REDUCTION} any_subset",
    ),
    Fault(
        "partial sums that are not merged",
        "templates/reduction/finish.cl.jinja",
        "split < splits; split += {{ L }}",
        "split + 1 < splits; split += {{ L }}",
        f"{REDUCTION} second_stages",
    ),
    Fault(
        "alpha on the old value",
        "templates/reduction/_parts.cl.jinja",
        "beta{{ n }} *",
        "alpha{{ n }} *",
        f"{REDUCTION} alpha_and_beta",
    ),
    Fault(
        "an exclusive scan that includes",
        "templates/scan/_parts.cl.jinja",
        "{% if code.exclusive and not code.totals %}",
        "{% if false %}",
        "tests/primitives/test_scan.py -k exclusive",
    ),
    Fault(
        "an order that is not stable",
        "templates/sort/rank.cl.jinja",
        "place += keys_memory[e] <= own;",
        "place += keys_memory[e] < own;",
        "tests/ops/sort/test_sort.py -k stable",
    ),
    Fault(
        "bfloat16 that is cut and not rounded",
        "templates/_shared.cl.jinja",
        "bits + 0x7fff + ((bits >> 16) & 1)",
        "bits",
        "tests/test_dtypes.py -k nearest_even",
    ),
    Fault(
        "a signature without strides",
        "clprim/call/signature.py",
        "found += (a.shape, a.strides, a.dtype, a.offset)",
        "found += (a.shape, a.dtype, a.offset)",
        "tests/ops/product/test_matmul.py -k any_strides",
    ),
    Fault(
        "windows' padding in an average",
        "ops/pool/avg_pool.py",
        '"if (inside) " if w.leave else ""',
        '""',
        "tests/ops/pool/test_pool.py -k 'avg_pool2d or leak'",
    ),
    Fault(
        "the second partials of a group",
        "templates/grouped/runs.cl.jinja",
        "for (int u = 1; u < {{ U }}; ++u)",
        "for (int u = 2; u < {{ U }}; ++u)",
        "tests/ops/norm/test_near.py -k 'training or layers'",
    ),
    Fault(
        "what the walk before has found of a group",
        "templates/grouped/runs.cl.jinja",
        "tile_{{ name }}[u] = {{ name }};",
        "tile_{{ name }}[u] = 0;",
        "tests/primitives/test_grouped.py -k begun_near",
    ),
    Fault(
        "what other heads add to the gradient of a mask",
        "templates/fused/attention_gradient.cl.jinja",
        "(n > 0 ? there[lane] : 0)",
        "0",
        "tests/ops/attention/test_scaled_dot_product.py -k results_and_gradients",
    ),
    Fault(
        "keys past the last one of few queries' attention",
        "templates/fused/attention_few.cl.jinja",
        "for (int lane = count - j; lane < {{ W }}; ++lane)",
        "for (int lane = count - j + 1; lane < {{ W }}; ++lane)",
        "tests/ops/attention/test_scaled_dot_product.py -k few_queries",
    ),
    Fault(
        "a run of equal keys that does not begin anew",
        "clprim/language/segmented.py",
        'if ({mark} != 0) {{", init',
        'if ({mark} > 9) {{", init',
        "tests/primitives/test_scan_segments.py -k runs_of_equal",
    ),
    Fault(
        "a damaged entry of the cache that is believed",
        "clprim/runtime/disk_cache.py",
        "return payload if entry[:_HEADER] == _header(key, payload) else None",
        "return payload",
        "tests/runtime/test_probe.py -k damaged",
    ),
    Fault(
        "rows of a tile past its first vector",
        TILE,
        "for (; j < {{ R }}; j += {{ W }}) {",
        "for (; j < 0; j += {{ W }}) {",
        "tests/ops/conv/test_few_outputs.py -k narrower",
    ),
)


def plant(fault: Fault) -> None:
    """Changes what this process will read of a file."""
    path = ROOT / fault.file
    text = path.read_text(encoding="utf-8")
    assert fault.right in text, f"{fault.file} has no {fault.right!r}"
    text = text.replace(fault.right, fault.wrong, 1)
    if path.suffix == ".py":
        compiled = SourceFileLoader.get_code

        def get_code(loader: SourceFileLoader, name: str) -> object:
            if Path(loader.path).resolve() == path:
                return compile(text, str(path), "exec")
            return compiled(loader, name)

        SourceFileLoader.get_code = get_code
        return
    read = Path.read_text

    def read_text(file: Path, *args: object, **options: object) -> str:
        return text if file.resolve() == path else read(file, *args, **options)

    Path.read_text = read_text


if CHOSEN in os.environ:  # pytest's plugin, in the child
    plant(FAULTS[int(os.environ[CHOSEN])])


def caught(number: int) -> bool:
    """Whether tests notice a fault: one fails, or a read elsewhere ends the process."""
    import shlex

    with tempfile.TemporaryDirectory() as cache:
        environ = {**os.environ, "CLPRIM_CACHE_DIR": cache, "PYTHONPATH": str(ROOT / "tests")}
        environ["CLPRIM_TEST_TURN"] = "all"
        if number >= 0:
            environ[CHOSEN] = str(number)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "faults"]
        command += ["-p", "no:cacheprovider", *shlex.split(FAULTS[number].tests)]
        run = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False
        )
    assert run.returncode <= 1, run.stdout[-2000:] + run.stderr[-2000:]
    return run.returncode != 0


def main() -> None:
    """Prints a line for every fault, and fails where one is missed."""
    chosen = [int(word) for word in sys.argv[1:]] or range(len(FAULTS))
    missed = 0
    for number in chosen:
        found = caught(number)
        missed += not found
        print(f"{number:2} {'caught' if found else 'MISSED'}  {FAULTS[number].name}", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
