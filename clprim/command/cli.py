"""The command line: ``clprim devices``, ``explain``, ``demo``, ``run``, ``generate``, ``serve``.

It needs nothing beyond what the library itself needs. Whatever clprim raises on purpose is printed
as one message and ends with exit status 2; a traceback would be a bug.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyopencl as cl

import clprim
from clprim.command import generate, run, serve, tune
from clprim.command.explain import COMMON, explain, sketch
from clprim.command.words import join_axes, read_axes, read_number, read_positive, read_shape
from clprim.dtypes import as_dtype
from clprim.errors import ClprimError, DefinitionError, DeviceError, ShapeError
from clprim.plan.strides import Operand
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction
from clprim.runtime.ceilings import measure
from clprim.runtime.device import Device, current_device, devices, set_device
from clprim.runtime.progress import waiting
from clprim.text_table import format_table

FAILED = 2
INTERRUPTED = 130

_DEFAULT_SHAPE = (32, 64, 112, 112)
_SPEC = "an index, part of a name, cpu or gpu"

_EXPLAIN_EXAMPLES = """\
examples:
  clprim explain "y0 = x0 * w0 + x1" --shape 32,64,112,112 --shape 64,1,1
  clprim explain "y0 = x0; y1 = x0 * x0" --init "reduce_y0 = 0; reduce_y1 = 0" \\
      --step "reduce_y0 += y0; reduce_y1 += y1" --axis 0,2,3 --memory-format channels_last
  clprim explain "y0 = tanh(x0)" --dtype bfloat16 --traits gpu
"""

_TUNE_EXAMPLES = """\
examples:
  clprim tune train.py --epochs 1
  clprim tune --network resnet50 --batch 1
  clprim tune --problem "conv2d 8,64,56,56 64,64,3,3 padding=1"
  clprim tune --export my-gpu.json
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command."""
    parser = _parser()
    args = parser.parse_args(join_axes(sys.argv[1:] if argv is None else argv))
    if args.command is None:
        parser.print_help()
        return 0
    try:
        if args.command.on_device and args.device is not None:
            set_device(args.device)
        status: int = args.command.run(args)
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


class _Command(NamedTuple):
    """A command: its arguments are added to its parser; most run on a ``--device``."""

    help: str
    add: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    about: str = ""
    examples: str = ""
    on_device: bool = True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="clprim", description="OpenCL kernels from short strings, on any vendor's device."
    )
    parser.add_argument("--version", action="version", version=f"clprim {clprim.__version__}")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, command in _COMMANDS.items():
        one = commands.add_parser(
            name, help=command.help, description=command.about or None,
            epilog=command.examples or None, formatter_class=argparse.RawDescriptionHelpFormatter
            if command.examples else argparse.HelpFormatter,
        )  # fmt: skip
        command.add(one)
        if command.on_device:
            one.add_argument("--device", metavar="SPEC", help=_SPEC)
        one.set_defaults(command=command)
    return parser


def _add_devices_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure copy and read bandwidth and float32 peak of each (some seconds a device)",
    )


def _add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--batch", type=read_positive, default=64, help="crops of the photograph (64)")
    add("--runs", type=read_positive, default=15, help="timed runs of each (15)")
    add("--full", action="store_true", help="print whole kernels, not their heart")


def _add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--output", type=Path, default=Path(), help="folder of the report (here)")
    add("--quick", action="store_true", help="one check a family, short runs")
    add("--keep", action="store_true", help="put a faster tile into the table of the device")


def _add_explain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("expr", metavar="EXPR", help="what to compute of every element")
    snippets = parser.add_argument_group("a reduction's other strings")
    snippets.add_argument("--init", help="neutral start of every partial result")
    snippets.add_argument("--step", help="take one element into the partial results")
    snippets.add_argument("--combine", help="merge two partial results (derived if left out)")
    snippets.add_argument("--finalize", help="make the results of the partial ones")
    snippets.add_argument(
        "--axis", type=read_axes, help="axes to reduce, as in 0,2,3; all by default"
    )
    snippets.add_argument("--keepdims", action="store_true", help="keep reduced axes, of size 1")

    inputs = parser.add_argument_group("arguments (once, or once for each array x0, x1, …)")
    inputs.add_argument(
        "--shape",
        action="append",
        type=read_shape,
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
        type=read_number,
        metavar="W",
        help="value of a run-time scalar w0, w1, … (1): its kind decides with the result's dtype",
    )
    inputs.add_argument("--result-type", action="append", help="dtype of all results or of each")
    inputs.add_argument("--preamble", default="", help="helper functions in OpenCL C")

    where = parser.add_argument_group("where").add_mutually_exclusive_group()
    where.add_argument("--device", metavar="SPEC", help=_SPEC)
    where.add_argument(
        "--traits",
        choices=sorted(COMMON),
        help="plan for a common device of this kind that need not be here",
    )


# --- devices -------------------------------------------------------------------------------------


def _devices(args: argparse.Namespace) -> int:
    found = devices()
    if not found:
        set_device(0)  # raises, and says what to install
    headers = ["", "device", "platform", "driver", "type", "memory", "units", "cores"]
    headers += ["caches", "fp16", "fp64"]
    align = "rllllrrrlll"
    if args.measure:
        headers += ["copy GB/s", "read GB/s", "fp32 GFLOP/s"]
        align += "rrr"
    rows: list[list[object] | None] = []
    problems: list[str] = []
    for device in found:
        row = _device_row(device)
        if args.measure:
            try:
                with waiting(f"measuring device {device.index}, {device.name}"):
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
        traits.cores or "-",
        " ".join(map(_size, (traits.l1_bytes, traits.l2_bytes, traits.cache_bytes)))
        if traits.is_cpu
        else _size(traits.cache_bytes),
        "yes" if traits.fp16 else "storage",
        "yes" if traits.fp64 else "no",
    ]


def _size(nbytes: int) -> str:
    """Bytes in a few letters."""
    return f"{nbytes >> 20}M" if nbytes >= 1 << 20 else f"{nbytes >> 10}K"


# --- explain -------------------------------------------------------------------------------------


def _explain(args: argparse.Namespace) -> int:
    operator = _define(args)
    on = _choose_device(args)
    arrays = _sketch_inputs(args, operator.definition.inputs)
    scalars = _repeat("--scalar", args.scalar or [1], operator.definition.scalars)
    with waiting("compiling"):
        text = explain(operator, arrays, scalars, axis=args.axis, keepdims=args.keepdims, on=on)
    print(text, end="")
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


def _choose_device(args: argparse.Namespace) -> Device | str:
    """The device to plan for, or the kind of a common one."""
    if args.traits is not None:
        return str(args.traits)
    if args.device is not None:
        return set_device(args.device)
    if devices():
        return current_device()
    print(
        "clprim: no OpenCL device here; planned for a common CPU (--traits chooses)",
        file=sys.stderr,
    )
    return "cpu"


def _sketch_inputs(args: argparse.Namespace, inputs: int) -> list[Operand]:
    if not inputs:
        raise ShapeError("explain needs an array: let the expression read x0")
    shapes = _repeat("--shape", args.shape or [_DEFAULT_SHAPE], inputs)
    dtypes = [as_dtype(d) for d in _repeat("--dtype", args.dtype or ["float32"], inputs)]
    if args.memory_format == "channels_last" and not any(len(s) == 4 for s in shapes):
        raise ShapeError("--memory-format channels_last needs a --shape N,C,H,W")
    return [
        sketch(shape, dtype, args.memory_format)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]


def _repeat(option: str, given: Sequence[Any], wanted: int) -> list[Any]:
    """One value for all, or one for each."""
    if len(given) == 1:
        return list(given) * wanted
    if len(given) != wanted:
        times = "once" if wanted == 1 else f"once, or {wanted} times"
        raise ShapeError(f"{option} is given {len(given)} times; expected {times}")
    return list(given)


# --- the others ----------------------------------------------------------------------------------


def _demo(args: argparse.Namespace) -> int:
    from clprim.command import demo

    return demo.run(batch=args.batch, runs=args.runs, full=args.full)


def _doctor(args: argparse.Namespace) -> int:
    from clprim.command import doctor

    return doctor.run(args.output, quick=args.quick, keep=args.keep)


_COMMANDS = {
    "devices": _Command(
        "list the OpenCL devices found, best first", _add_devices_arguments, _devices,
        on_device=False,
    ),
    "explain": _Command(
        "print the kernel for shapes and dtypes, without running it",
        _add_explain_arguments,
        _explain,
        "Prints how a definition would run and its OpenCL C, without running it. With a device at "
        "hand the kernel is compiled too, so that all its errors show.",
        _EXPLAIN_EXAMPLES,
        on_device=False,  # where none is given, a common one
    ),
    "demo": _Command("a photograph, three strings, a kernel, a race", _add_demo_arguments, _demo),
    "doctor": _Command(
        "check a device, measure it, write a report to attach to an issue",
        _add_doctor_arguments,
        _doctor,
        "Says what the device is and what was probed, runs every family of kernels on odd shapes, "
        "measures ceilings and workloads, times other tiles for the worst of them, and writes a "
        "report as Markdown and JSON. It takes a few minutes.",
    ),
    "run": _Command(
        "run an ONNX model",
        run.add_arguments,
        run.run,
        "Runs an ONNX model on arrays, pictures or random numbers, and says what came out, how "
        "long it took and, if asked, how far it is from ONNX Runtime's result.",
    ),
    "generate": _Command(
        "continue a text with a language model",
        generate.add_arguments,
        generate.generate,
        "Continues a text, or answers with --chat, by the language model of a GGUF file, and says "
        "how many tokens a second the prompt and the answer took.",
    ),
    "serve": _Command(
        "answer OpenAI's clients with a language model",
        serve.add_arguments,
        serve.serve,
        "Answers /v1/completions, /v1/chat/completions and /v1/models as OpenAI does, streams too, "
        "with the language model of a GGUF file; up to 16 texts are continued at a time.",
    ),
    "tune": _Command(
        "time tiles of products, convolutions, reductions on your device, keep the fastest",
        tune.add_arguments,
        tune.run,
        "Finds the products and convolutions of a script, a network or a problem, times their most "
        "promising tiles, about a second each beside builds, and keeps what wins in the user's "
        "table of the device, where every later program finds it. cp.options(tune=True) and "
        "CLPRIM_TUNE=1 do the same at first calls. Options go before the script.",
        _TUNE_EXAMPLES,
    ),
}  # fmt: skip
