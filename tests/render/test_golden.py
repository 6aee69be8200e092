"""Rendered kernels: golden files, the same bytes every time, line numbers that are right."""

import dataclasses
import hashlib
import itertools
import os
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import jinja2
import numpy as np
import pytest
from planning import (
    ARGMAX,
    CPU,
    FLOAT,
    GPU,
    array,
    convolution,
    crossed,
    define,
    depthwise,
    depthwise_weight,
    map_plan,
    product,
    reduce_plan,
)
from support import BFLOAT16

from clprim.language.definition import define_pointwise
from clprim.language.epilogue import define_epilogue
from clprim.plan.depthwise.planner import plan_depthwise
from clprim.plan.grouped.planner import Grouped, plan_grouped
from clprim.plan.product.tiles import plan_tiles
from clprim.plan.reduction.code import Scaling
from clprim.render import environment, render

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
HALF = np.dtype(np.float16)

WELFORD = define(
    init="reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;",
    step="""\
reduce_y2 += 1;
typeof_reduce_y0 delta = y0 - reduce_y0;
reduce_y0 += delta / reduce_y2;
reduce_y1 += delta * (y0 - reduce_y0);""",
    combine="""\
typeof_reduce_y0 n = reduce_y2 + other_y2;
if (other_y2 > 0) {
    typeof_reduce_y0 delta = other_y0 - reduce_y0;
    reduce_y0 += delta * (other_y2 / n);
    reduce_y1 += other_y1 + delta * delta * (reduce_y2 * other_y2 / n);
    reduce_y2 = n;
}""",
    finalize="y0 = reduce_y0; y1 = reduce_y1 / count;",
    name="mean_and_variance",
)


def maps():
    image, channel = array((2, 3, 20, 20), order=(0, 2, 3, 1)), array((3, 1, 1))
    yield "pointwise/cpu", map_plan("y0 = x0 * w0 + x1;", *[array((100,))] * 2, scalars=(1.0,))
    yield "pointwise/gpu", map_plan("y0 = x0 + x1;", array((50, 60)), array((60,)), traits=GPU)
    yield "pointwise/streaming", map_plan("y0 = x0 + 1;", array((1 << 24,)))
    yield (
        "pointwise/strided",
        map_plan(
            "// doubles what is positive\nif (x0 > 0)\n    y0 = 2 * x0;\nelse\n    y0 = x1",
            array((30, 40), steps=2),
            array((30, 40), order=(1, 0)),
        ),
    )
    yield (
        "pointwise/half",
        map_plan(
            "y0 = x0 + x1 * 0.5;",
            array((64,), HALF),
            array((64,), BFLOAT16),
            out=array((64,), BFLOAT16),
        ),
    )
    yield (
        "pointwise/positions",
        map_plan(
            "y0 = x0 + index + coord(0) * size(-1) + w0;",
            array((5, 6, 7), np.int8),
            out=array((5, 6, 7), np.int64),
            scalars=(np.bool_(True),),
            traits=GPU,
        ),
    )
    yield "pointwise/12-dimensions", map_plan("y0 = max(x0, x1);", *crossed(12))
    yield (
        "pointwise/preamble",
        map_plan(
            "y0 = twice(x0); y1 = clamp(x0, 0, 1.5);",
            array((9,), np.float64),
            dtype=np.float64,
            results=2,
            name="both",
            preamble="// of ones own\ndouble twice(double a)\n{\n    return 2 * a;\n}",
        ),
    )
    yield "pointwise/periodic", map_plan("y0 = x0 + x1;", image, channel, out=image)
    yield from moves()


def moves():
    """Operands that lie otherwise than the results."""
    narrow = dataclasses.replace(CPU, vector_bytes=16)
    picture, last = array((8, 64, 400, 500)), array((8, 64, 400, 500), order=(0, 2, 3, 1))
    pixels = array((8, 40, 50, 3)), array((8, 40, 50, 3), order=(0, 3, 1, 2))
    yield "pointwise/transpose", map_plan("y0 = x0;", picture, out=last, traits=narrow)
    yield "pointwise/transpose-sum", map_plan("y0 = max(x0, 0) + x1;", last, picture, out=last)
    odd = array((8, 67, 40, 50)), array((8, 67, 40, 50), order=(0, 2, 3, 1))
    yield "pointwise/transpose-whole", map_plan("y0 = x0;", odd[0], out=odd[1], traits=narrow)
    yield "pointwise/transpose-gpu", map_plan("y0 = x0;", picture, out=last, traits=GPU)
    yield (
        "pointwise/three-rows",
        map_plan("y0 = x0 * w0;", pixels[1], out=pixels[0], scalars=(2.0,)),
    )
    yield "pointwise/rows", map_plan("y0 = x0 + 1;", image_part())


def image_part():
    """A part of a picture: short rows."""
    whole = array((64, 64, 64))
    return dataclasses.replace(whole, shape=(64, 50, 50), offset=4)


def reductions():
    image = array((8, 3, 40, 40), order=(0, 2, 3, 1))
    yield "reduction/inner-cpu", reduce_plan(array((100, 1000)), (1,))
    yield "reduction/inner-gpu", reduce_plan(array((4, 100_000)), (1,), GPU)
    yield "reduction/inner-rows", reduce_plan(array((16, 64, 300)), (0, 2))
    yield "reduction/columns-cpu", reduce_plan(array((100, 1000)), (0,))
    yield "reduction/narrow-cpu", reduce_plan(image, (0, 2, 3))
    yield "reduction/lanes-gpu", reduce_plan(array((500, 100)), (0,), GPU)
    yield "reduction/argmax-gpu", reduce_plan(array((70, 80)), (1,), GPU, ARGMAX, ["f4", "i8"])
    yield "reduction/welford-cpu", reduce_plan(array((6, 7, 800)), (0, 2), CPU, WELFORD)
    yield (
        "reduction/scaled-half",
        reduce_plan(
            [array((40, 50), HALF), array((50,), HALF)],
            (1,),
            CPU,
            define("y0 = x0 * x1 * w0;"),
            results=[BFLOAT16],
            scaling=[Scaling("accumulate", FLOAT)],
            scalars=(2.0,),
        ),
    )


def contractions():
    relu, residual = "y0 = max(y0, 0);", "y0 = max(y0 + x0, 0);"
    last = convolution(2, 32, 14, 64, last=True, epilogue=residual, bias=True)
    first = convolution(1, 32, 15, 16, kernel=5, padding=2, epilogue=relu)
    yield "product/tiles-windows", plan_tiles(last, GPU).main
    yield "product/tiles-finish", plan_tiles(first, GPU).finish
    epilogue = define_epilogue("matmul", "y0 = tanh(y0);")
    whole = product(512, 512, 64, dtype=np.float16, epilogue=epilogue, beta=True)
    yield "product/tiles-matrix", plan_tiles(whole, GPU).main


def depthwise_plans():
    clip = define_epilogue("conv2d", "y0 = clamp(y0, 0, 6);")

    def plan(*shape, traits=CPU, epilogue=clip, **options):
        return plan_depthwise(depthwise(*shape, epilogue=epilogue, **options), traits)

    channels = plan(2, 32, 14, last=True)
    yield "depthwise/channels", channels.main
    yield "depthwise/pack", channels.pack
    yield "depthwise/channels-adjoint", plan(2, 32, 14, last=True, stride=2, adjoint=True).main
    yield "depthwise/channels-loops", plan(2, 32, 14, last=True, dilation=2, dtype=HALF).main
    yield "depthwise/flat", plan(2, 32, 14, beta=True).main
    yield "depthwise/runs", plan(2, 32, 14, stride=2).main
    yield "depthwise/planes", plan(2, 32, 90, stride=2, padding=0).main
    yield "depthwise/planes-adjoint", plan(2, 32, 14, stride=2, adjoint=True).main
    yield "depthwise/planes-loops", plan(2, 32, 14, kernel=4).main
    yield "depthwise/windows", plan(2, 32, 14, traits=GPU).main
    yield "depthwise/windows-loops", plan(2, 32, 14, 9, dilation=2, last=True, traits=GPU).main
    yield "depthwise/windows-adjoint", plan(2, 32, 14, traits=GPU, stride=2, adjoint=True).main
    yield "depthwise/lanes", plan(2, 32, 14, traits=GPU, stride=4).main
    yield "depthwise/lanes-adjoint", plan(2, 32, 14, traits=GPU, stride=4, adjoint=True).main
    for name, traits, last in (("channels", CPU, True), ("planes", CPU, False)):
        yield (
            f"depthwise/weight-{name}",
            plan_depthwise(depthwise_weight(2, 32, 14, last=last), traits).main,
        )
    for name, traits, last in (("columns", GPU, False), ("channels", GPU, True)):
        yield (
            f"depthwise/weight-windows-{name}",
            plan_depthwise(depthwise_weight(2, 32, 14, last=last), traits).main,
        )
    lanes = plan_depthwise(depthwise_weight(2, 32, 14, stride=4), GPU)
    yield "depthwise/weight-lanes", lanes.main
    yield "depthwise/finish", lanes.finish


def groups():
    """Groups that are summed up and mapped at once."""
    x, one = array((32, 64, 14, 14)), array((64, 1, 1))
    parts = [
        define_pointwise(text, name="group", preamble="")
        for text in (
            "y0 = x0 - x1; y1 = y0 * y0;",
            "y0 = x0 * w0 + x2; y1 = rsqrt(x1 * w0);",
            "y0 = (x0 - x1) * x2 + x3 * w0;",
        )
    ]
    what = Grouped("group", *parts, x.shape, (0, 2, 3), FLOAT, (x,), (one,), (x,), x, (None, one))
    yield "grouped/runs", plan_grouped(what, CPU)


@lru_cache(maxsize=1)
def kernels():
    """Every kernel of this file, as (name, template, code)."""
    found = [(name, plan.template, plan.code) for name, plan in maps()]
    for name, plan in reductions():
        for n, stage in enumerate(plan.stages):
            found.append((name if n == 0 else f"{name}-finish", stage.template, stage.code))
    plans = itertools.chain(contractions(), depthwise_plans(), groups())
    found += [(name, plan.template, plan.code) for name, plan in plans]
    return found


each_kernel = pytest.mark.parametrize(
    ("name", "template", "code"), kernels(), ids=[name for name, *_ in kernels()]
)


@each_kernel
def test_golden(name, template, code, request):
    text = render(template, code)
    file = GOLDEN / f"{name}.cl"
    if request.config.getoption("--update-golden"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.is_file(), "pytest --update-golden writes it"
    assert text == file.read_text(encoding="utf-8")


def test_there_is_no_golden_file_too_many(request):
    wanted = {f"{name}.cl" for name, *_ in kernels()}
    found = {file.relative_to(GOLDEN).as_posix() for file in GOLDEN.rglob("*.cl")}
    if request.config.getoption("--update-golden"):
        for name in found - wanted:
            (GOLDEN / name).unlink()
    else:
        assert found <= wanted


def test_every_template_is_rendered():
    found = {file.relative_to(ROOT / "templates").as_posix() for file in TEMPLATES}
    templates = {name.removesuffix(".cl.jinja") for name in found if "/_" not in f"/{name}"}
    printed = templates - {"measure/ceilings"}
    assert (
        printed
        >= {template for _, template, _ in kernels()}
        >= {
            name
            for name in printed
            if name.startswith(("pointwise", "reduction", "product/tiles", "depthwise"))
        }
    )


# --- what holds for every kernel --------------------------------------------------------------


@each_kernel
def test_the_text_is_clean(name, template, code):
    text = render(template, code)
    lines = text.split("\n")
    assert text.endswith("}\n")
    assert not text.endswith("\n\n")
    assert not any(line != line.rstrip() for line in lines)
    assert "\t" not in text
    assert "\n\n\n" not in text
    assert not re.search(r"\{[{%#]|[%#]\}", text)  # nothing of Jinja is left
    assert text.isascii()


@each_kernel
def test_line_numbers_are_the_users_and_then_real(name, template, code):
    lines = render(template, code).split("\n")
    snippets = 0
    for at, line in enumerate(lines):
        if line.startswith("#line"):
            number, file = re.fullmatch(r'#line (\d+) "([^"]+)"', line).groups()
            if file == "kernel":
                assert int(number) == at + 2
            else:
                snippets += 1
                assert number == "1"
                part = file.removeprefix("snippet:")
                user = getattr(code, part)
                user = getattr(user, "text", user).split("\n")
                assert lines[at + 1 : at + 1 + len(user)] == user
                assert lines[at + 1 + len(user)].startswith("#line")
    assert snippets or getattr(code, "epilogue", "") == ""


@each_kernel
def test_brackets_balance_and_lines_are_indented(name, template, code):
    depth = 0
    verbatim = False
    for line in render(template, code).split("\n"):
        if line.startswith("#line"):
            verbatim = "snippet:" in line
        elif not verbatim:
            code_only = re.sub(r"//.*|/\*.*?\*/", "", line)
            if line and not line.startswith("#"):
                indent = len(line) - len(line.lstrip())
                opening = depth - line.lstrip().startswith("}")
                assert indent >= 4 * opening or line.startswith("}"), line
            depth += code_only.count("{") - code_only.count("}")
            assert depth >= 0
    assert depth == 0


@each_kernel
def test_declared_parameters_are_the_kernels(name, template, code):
    text = render(template, code)
    _, _, rest = text.partition(f"void {code.name}(\n")
    head, _, _ = rest.partition(")\n{")
    # A name that the snippets use too has a prefix.
    found = [line.strip().replace(" cp_", " ") for line in head.split(",\n")]
    assert found == [p.declaration for p in code.parameters]


def digests():
    return {
        name: hashlib.sha256(render(template, code).encode()).hexdigest()
        for name, template, code in kernels()
    }


def test_a_new_process_renders_the_same_bytes():
    script = "import test_golden; print(sorted(test_golden.digests().items()))"
    path = os.pathsep.join([str(Path(__file__).parent), str(ROOT / "tests")])
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.strip() == str(sorted(digests().items()))


def test_rendering_twice_gives_the_same_bytes():
    first = digests()
    environment.cache_clear()
    assert digests() == first


# --- the templates themselves -----------------------------------------------------------------

TEMPLATES = sorted((ROOT / "templates").rglob("*.jinja"))
each_template = pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
TAGS = set(
    "if elif else endif for endfor macro endmacro set endset import from call endcall filter "
    "endfilter include".split()
)


@each_template
def test_jinja_does_not_swallow_c(file):
    text = file.read_text(encoding="utf-8")
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{file.name}:{number}: {line}"
        assert line == line.rstrip(), where
        assert "\t" not in line, where
        for tag in re.findall(r"\{%[-+]?\s*(\w*)", line):
            assert tag in TAGS, f"{where}: `{{%` in C has to be written `{{ %`"
        # `= {{0}}` prints `= 0`: an initializer within another one is written `{ {0} }`.
        assert not re.search(r"\{\{-?\s*[\d.\"][\d.f\"]*\s*[},]", line), where
        # A comment opens a line; anywhere else it would be C's brace and a directive.
        if "{#" in line:
            assert line.lstrip().startswith("{#"), where
    environment().parse(text)


@each_template
def test_values_of_several_lines_are_indented(file):
    # A macro that prints statements and stands behind blanks must say so to its lines.
    text = file.read_text(encoding="utf-8")
    statements = "start|start_tile|element|tile_element|take_vector|tree|tree_memory|finish|"
    statements += "kept_loops|reduced_loops|scalars|snippet|block|place|walk|walk_rows|steps"
    for number, line in enumerate(text.split("\n"), 1):
        call = re.match(rf" +\{{\{{ (?:\w+\.)?({statements})\(", line)
        if call:
            indent = len(line) - len(line.lstrip())
            assert f"| indent({indent})" in line, f"{file.name}:{number}: {line}"


def test_an_undefined_name_in_a_template_is_an_error():
    assert environment().undefined is jinja2.StrictUndefined
    assert not environment().autoescape
    with pytest.raises(jinja2.UndefinedError):
        environment().from_string("{{ code.nothing }}").render(code=kernels()[0][2])


VENDORS = re.compile(r"nvidia|\bamd\b|amdgcn|radeon|geforce|intel|cuda|rocm|pocl", re.IGNORECASE)


@pytest.mark.parametrize(
    "file",
    [*TEMPLATES, *sorted((ROOT / "clprim" / "plan").rglob("*.py")), ROOT / "clprim" / "traits.py"],
    ids=lambda file: file.name,
)
def test_plans_and_templates_name_no_vendor(file):
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
        assert not VENDORS.search(line), f"{file.name}:{number}: {line}"
