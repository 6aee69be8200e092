"""The command line: ``clprim devices``, ``clprim explain``, ``clprim demo``.

It needs nothing beyond what the library itself needs. Whatever clprim raises on purpose is printed
as one message and ends with exit status 2; a traceback would be a bug.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

import pyopencl as cl

import clprim
from clprim.array import Array
from clprim.calls import texts
from clprim.dtypes import AnyDType, as_dtype
from clprim.errors import ClprimError, DefinitionError, DeviceError, ShapeError
from clprim.launch import Launch, source_of
from clprim.plan.kernel import KernelPlan
from clprim.plan.layout import dense_strides
from clprim.plan.pointwise import PointwiseCode
from clprim.plan.reduction import ReductionPlan
from clprim.pointwise import Pointwise
from clprim.reduction import Reduction
from clprim.runtime.device import Device, current_device, devices, set_device
from clprim.runtime.measure import measure
from clprim.text_table import format_table
from clprim.traits import DeviceTraits

__all__ = ["main"]

FAILED = 2
INTERRUPTED = 130

# Devices that are not here, for `explain --traits`: what a common CPU and a common GPU report.
TRAITS = {
    "cpu": DeviceTraits(
        is_cpu=True, max_work_group_size=4096, vector_bytes=32, cache_bytes=32 << 20
    ),
    "gpu": DeviceTraits(compute_units=32, fp16=True, sub_group_size=32),
}

_DEFAULT_SHAPE = (32, 64, 112, 112)

_EXPLAIN_EXAMPLES = """\
examples:
  clprim explain "y0 = x0 * w0 + x1" --shape 32,64,112,112 --shape 64,1,1
  clprim explain "y0 = x0; y1 = x0 * x0" --init "reduce_y0 = 0; reduce_y1 = 0" \\
      --step "reduce_y0 += y0; reduce_y1 += y1" --axis 0,2,3 --memory-format channels_last
  clprim explain "y0 = tanh(x0)" --dtype bfloat16 --traits gpu
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: The words after the program's name; those of this process by default.

    Returns:
        The exit status: 0, 1 for a demo whose results are wrong, or 2 for an error.
    """
    parser = _parser()
    args = parser.parse_args(_join_axes(sys.argv[1:] if argv is None else argv))
    if args.command is None:
        parser.print_help()
        return 0
    try:
        status: int = args.command(args)
        sys.stdout.flush()
    except ClprimError as error:
        sys.stdout.flush()
        print(f"clprim: {error}", file=sys.stderr)
        return FAILED
    except cl.Error as error:  # what a driver says and no part of clprim expected
        sys.stdout.flush()
        print(f"clprim: the OpenCL driver failed: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:  # the reader, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="clprim", description="OpenCL kernels from short strings, on any vendor's device."
    )
    parser.add_argument("--version", action="version", version=f"clprim {clprim.__version__}")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    listing = commands.add_parser("devices", help="list the OpenCL devices found, best first")
    listing.add_argument(
        "--measure",
        action="store_true",
        help="measure copy and read bandwidth and float32 peak of each (some seconds a device)",
    )
    listing.set_defaults(command=_devices)

    explain = commands.add_parser(
        "explain",
        help="print the kernel for shapes and dtypes, without running it",
        description="Prints how a definition would run and its OpenCL C, without running it. With "
        "a device at hand the kernel is compiled too, so that all its errors show.",
        epilog=_EXPLAIN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_explain_arguments(explain)
    explain.set_defaults(command=_explain)

    demo = commands.add_parser("demo", help="a photograph, three strings, a kernel, a race")
    demo.add_argument("--device", metavar="SPEC", help="an index, part of a name, cpu or gpu")
    demo.add_argument("--batch", type=_positive, default=64, help="crops of the photograph (64)")
    demo.add_argument("--runs", type=_positive, default=15, help="timed runs of each (15)")
    demo.add_argument("--full", action="store_true", help="print whole kernels, not their heart")
    demo.set_defaults(command=_demo)
    return parser


def _add_explain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("expr", metavar="EXPR", help="what to compute of every element")
    snippets = parser.add_argument_group("a reduction's other strings")
    snippets.add_argument("--init", help="neutral start of every partial result")
    snippets.add_argument("--step", help="take one element into the partial results")
    snippets.add_argument("--combine", help="merge two partial results (derived if left out)")
    snippets.add_argument("--finalize", help="make the results of the partial ones")
    snippets.add_argument("--axis", type=_axes, help="axes to reduce, as in 0,2,3; all by default")
    snippets.add_argument("--keepdims", action="store_true", help="keep reduced axes, of size 1")

    inputs = parser.add_argument_group("arguments (once, or once for each array x0, x1, …)")
    inputs.add_argument(
        "--shape",
        action="append",
        type=_shape,
        help="as in 32,64,112,112, which is the default; empty for no dimensions",
    )
    inputs.add_argument("--dtype", action="append", help="NumPy's name, or bfloat16 (float32)")
    inputs.add_argument(
        "--memory-format",
        choices=("contiguous", "channels_last"),
        default="contiguous",
        help="of arrays with four dimensions",
    )
    inputs.add_argument(
        "--scalar",
        action="append",
        type=_number,
        metavar="W",
        help="value of a run-time scalar w0, w1, … (1): its kind decides with the result's dtype",
    )
    inputs.add_argument("--result-type", action="append", help="dtype of all results or of each")
    inputs.add_argument("--preamble", default="", help="helper functions in OpenCL C")

    where = parser.add_argument_group("where").add_mutually_exclusive_group()
    where.add_argument("--device", metavar="SPEC", help="an index, part of a name, cpu or gpu")
    where.add_argument(
        "--traits",
        choices=sorted(TRAITS),
        help="plan for a common device of this kind that need not be here",
    )


# --- devices -------------------------------------------------------------------------------------


def _devices(args: argparse.Namespace) -> int:
    found = devices()
    if not found:
        set_device(0)  # raises, and says what to install
    headers = ["", "device", "platform", "driver", "type", "memory", "units", "fp16", "fp64"]
    align = "rllllrrll"
    if args.measure:
        headers += ["copy GB/s", "read GB/s", "fp32 GFLOP/s"]
        align += "rrr"
    rows: list[list[object] | None] = []
    problems: list[str] = []
    for device in found:
        row = _device_row(device)
        if args.measure:
            try:
                ceilings = measure(device)
                row += [
                    f"{ceilings.copy_bandwidth / 1e9:.1f}",
                    f"{ceilings.read_bandwidth / 1e9:.1f}",
                    f"{ceilings.fp32_peak / 1e9:.0f}",
                ]
            except DeviceError as error:
                row += ["-", "-", "-"]
                problems.append(str(error))
        rows.append(row)
    print(format_table(headers, rows, align=align))
    for problem in problems:
        print(f"clprim: {problem}", file=sys.stderr)
    print(f"\ncurrent: {current_device().index} (cp.set_device() or CLPRIM_DEVICE chooses another)")
    return FAILED if problems else 0


def _device_row(device: Device) -> list[object]:
    traits = device.traits
    return [
        device.index,
        device.name,
        device.platform,
        device.driver,
        device.type,
        f"{device.cl.global_mem_size / 2**30:.1f} GiB",
        traits.compute_units,
        "yes" if traits.fp16 else "storage",
        "yes" if traits.fp64 else "no",
    ]


# --- explain -------------------------------------------------------------------------------------


class _Sketch(Array):
    """An array that has a place for every element but no memory: enough for planning."""

    def __init__(self, shape: tuple[int, ...], dtype: AnyDType, memory_format: str) -> None:
        order: Sequence[int] = range(len(shape))
        if memory_format == "channels_last" and len(shape) == 4:
            order = (0, 2, 3, 1)
        self.shape = shape
        self.dtype = dtype
        self.strides = dense_strides(shape, dtype.itemsize, order)
        self.offset = 0
        self.context = None


class _Drawing:
    """A device that plans are made for and nothing runs on."""

    context = None  # that of every sketch

    def __init__(self, traits: DeviceTraits, title: str) -> None:
        self.traits = traits
        self.title = title

    def __str__(self) -> str:
        return self.title


def _explain(args: argparse.Namespace) -> int:
    operator = _define(args)
    device = _choose_device(args)
    if device is None:
        kind = args.traits or "cpu"
        drawing = _Drawing(TRAITS[kind], f"a common {kind.upper()}")
        if args.traits is None:
            print(
                "clprim: no OpenCL device here; planned for a common CPU (--traits chooses)",
                file=sys.stderr,
            )
    else:
        drawing = _Drawing(device.traits, str(device))
    arrays = _sketch_inputs(args, operator.definition.inputs)
    scalars = _repeat("--scalar", args.scalar or [1], operator.definition.scalars)
    options = (args.axis, args.keepdims, None, 1, 0) if isinstance(operator, Reduction) else (None,)
    # The very planning that a call does; a drawing stands for the device, as nothing will run.
    planner: Any = operator._plan
    plan, results = planner(drawing, (*arrays, *scalars), *options)
    stages = _stages(plan)
    if device is not None:
        snippets = texts(operator.definition.snippets, operator.definition.preamble)
        for stage in stages:
            Launch(device, stage, title=operator._what, snippets=snippets)
    print(_summary(operator, drawing, arrays, results, plan))
    for number, stage in enumerate(stages, 1):
        rule = f"// --- kernel {number} of {len(stages)} "
        print(f"\n{rule:-<100}\n")
        print(source_of(stage.template, stage.code), end="")
    return 0


def _define(args: argparse.Namespace) -> Pointwise | Reduction:
    result_type = args.result_type
    if result_type is not None and len(result_type) == 1:
        result_type = result_type[0]
    if args.init is None and args.step is None:
        given = ("combine", "finalize", "axis", "keepdims")
        unused = [f"--{name}" for name in given if getattr(args, name) not in (None, False)]
        if unused:
            raise DefinitionError(
                f"{', '.join(unused)}: only a reduction has it; give --init and --step"
            )
        return Pointwise(args.expr, result_type=result_type, preamble=args.preamble)
    if args.init is None or args.step is None:
        missing = "--init" if args.init is None else "--step"
        raise DefinitionError(f"a reduction needs --init and --step; {missing} is missing")
    return Reduction(
        args.expr,
        init=args.init,
        step=args.step,
        combine=args.combine,
        finalize=args.finalize,
        result_type=result_type,
        preamble=args.preamble,
    )


def _choose_device(args: argparse.Namespace) -> Device | None:
    """The device to plan for; None for a common one."""
    if args.traits is not None:
        return None
    if args.device is not None:
        return set_device(args.device)
    return current_device() if devices() else None


def _sketch_inputs(args: argparse.Namespace, inputs: int) -> list[_Sketch]:
    if not inputs:
        raise ShapeError("explain needs an array: let the expression read x0")
    shapes = _repeat("--shape", args.shape or [_DEFAULT_SHAPE], inputs)
    dtypes = [as_dtype(d) for d in _repeat("--dtype", args.dtype or ["float32"], inputs)]
    if args.memory_format == "channels_last" and not any(len(s) == 4 for s in shapes):
        raise ShapeError("--memory-format channels_last needs a --shape N,C,H,W")
    return [
        _Sketch(shape, dtype, args.memory_format)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]


def _repeat(option: str, given: Sequence[Any], wanted: int) -> list[Any]:
    """One value for all, or one for each."""
    if len(given) == 1:
        return list(given) * wanted
    if len(given) != wanted:
        raise ShapeError(f"{option} is given {len(given)} times; expected once, or {wanted} times")
    return list(given)


def _stages(plan: KernelPlan | ReductionPlan | None) -> tuple[KernelPlan, ...]:
    if plan is None:
        return ()
    return plan.stages if isinstance(plan, ReductionPlan) else (plan,)


def _summary(
    operator: Pointwise | Reduction,
    device: _Drawing,
    arrays: Sequence[_Sketch],
    results: Sequence[tuple[Any, ...]],
    plan: KernelPlan | ReductionPlan | None,
) -> str:
    """What is worth knowing about the plan, as comments of OpenCL C."""
    lines = [operator._what]
    lines += [f"  x{n}  {_describe(a.shape, a.dtype, a.strides)}" for n, a in enumerate(arrays)]
    lines += [
        f"  y{n}  {_describe(shape, dtype, strides)}"
        for n, (shape, dtype, strides, _) in enumerate(results)
    ]
    stages = _stages(plan)
    lines += [f"  on  {device}", "", f"strategy  {_strategy(plan)}"]
    for stage in stages:
        work = " × ".join(map(str, stage.global_size))
        group = " × ".join(map(str, stage.local_size))
        lines.append(
            f"launch    {stage.code.name}: {work} work-items in groups of {group}; "
            f"{_amount(stage.nbytes)}B, {_amount(stage.flops)}FLOP"
        )
    return "\n".join(f"// {line}".rstrip() for line in lines)


def _describe(shape: tuple[int, ...], dtype: AnyDType, strides: tuple[int, ...]) -> str:
    channels_last = (
        len(shape) == 4
        and strides == dense_strides(shape, dtype.itemsize, (0, 2, 3, 1))
        and strides != dense_strides(shape, dtype.itemsize, range(4))
    )
    return f"{dtype} {shape}{', channels_last' if channels_last else ''}"


def _strategy(plan: KernelPlan | ReductionPlan | None) -> str:
    if plan is None:
        return "no elements: nothing runs"
    if isinstance(plan, KernelPlan):
        code = plan.code
        assert isinstance(code, PointwiseCode)
        width = f"vectors of {code.vector}" if code.vector > 1 else "one element at a time"
        streaming = ", stores that bypass the cache" if code.streaming else ""
        loops = "one loop" if not code.outer else f"{code.outer + 1} nested loops"
        return f"pointwise: {width}, {loops}{streaming}"
    s = plan.schedule
    parts = [
        f"vectors of {s.vector}" if s.vector > 1 else "one element at a time",
        f"{s.unroll} of them side by side" if s.unroll > 1 else "",
        f"{s.lanes} lanes × {s.rows} rows a work-group" if s.lanes * s.rows > 1 else "",
        f"{s.splits} pieces of {s.chunk:,} elements, merged by a second kernel"
        if s.splits > 1
        else "one stage",
    ]
    return f"{s.template}: {', '.join(part for part in parts if part)}"


def _amount(number: float) -> str:
    for prefix in ("", "k", "M", "G"):
        if number < 1000:
            return f"{number:.4g} {prefix}"
        number /= 1000
    return f"{number:.4g} T"


# --- demo ----------------------------------------------------------------------------------------


def _demo(args: argparse.Namespace) -> int:
    if args.device is not None:
        set_device(args.device)
    from clprim import demo

    return demo.run(batch=args.batch, runs=args.runs, full=args.full)


# --- what arguments look like --------------------------------------------------------------------


def _join_axes(argv: Sequence[str]) -> list[str]:
    """Makes ``--axis -1,-2`` one word; argparse would take its second word for an option."""
    joined: list[str] = []
    for word in argv:
        if joined and joined[-1] == "--axis":
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _integers(text: str) -> tuple[int, ...]:
    words = text.strip().strip("()").replace("×", ",").replace("x", ",").split(",")
    return tuple(int(word) for word in words if word.strip())


def _shape(text: str) -> tuple[int, ...]:
    try:
        shape = _integers(text)
    except ValueError:
        shape = (-1,)
    if any(size < 0 for size in shape):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no shape; expected sizes as in 32,64,112,112"
        )
    return shape


def _axes(text: str) -> tuple[int, ...]:
    try:
        return _integers(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected axes as in 0,2,3") from None


def _number(text: str) -> int | float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    return int(text) if text.strip().lstrip("+-").isdecimal() else number


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a positive whole number")
    return int(text)
