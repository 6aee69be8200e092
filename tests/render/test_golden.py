"""Rendered kernels: golden files, the same bytes every time, line numbers that are right."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
from rendered import kernels

from clprim.render import _tidy, environment, render

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"

each_kernel = pytest.mark.parametrize(
    ("name", "template", "code"), kernels(), ids=[name for name, *_ in kernels()]
)


# What others show in every branch has no file; `touch` one to have it written.
SHOWN = [k for k in kernels() if (GOLDEN / f"{k[0]}.cl").is_file()]


@pytest.mark.parametrize(("name", "template", "code"), SHOWN, ids=[name for name, *_ in SHOWN])
def test_golden(name, template, code, request):
    text = render(template, code)
    file = GOLDEN / f"{name}.cl"
    if request.config.getoption("--update-golden"):
        file.write_text(text, encoding="utf-8")
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
    assert printed == {template for _, template, _ in SHOWN}


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


def snippet(code, part):
    """The user's text that a kernel calls by a name."""
    for phase in getattr(code, "phases", ()):
        texts = (phase.expr, phase.step, phase.combine)
        for name, text in zip(phase.parts, texts, strict=True):
            if name == part:
                return text
    if part.startswith("factor_"):
        return code.factors[int(part.removeprefix("factor_"))]
    for side in ("inner", "outer"):
        if part.startswith(f"{side}_"):
            return getattr(getattr(code, side), part.removeprefix(f"{side}_"))
    if part == getattr(code, "part", ""):
        return code.expr
    return code.each if part == getattr(code, "each_part", "") else getattr(code, part)


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
                if hasattr(code, "bodies"):  # each is a kernel that is here as well
                    continue
                part = file.removeprefix("snippet:")
                user = snippet(code, part)
                user = getattr(user, "text", user).split("\n")
                assert lines[at + 1 : at + 1 + len(user)] == user
                assert lines[at + 1 + len(user)].startswith("#line")
    assert snippets or getattr(code, "epilogue", "") == "" or getattr(code, "split", False)


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
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
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


# Names of extensions, of what they bring and of options are no names of vendors.
EXTENSIONS = re.compile(
    r"\b(cl_)?intel_(reqd_)?sub_?group\w*|-cl-intel-[\w-]+|__builtin_amdgcn_(ds_|[mw])\w*"
)
VENDORS = re.compile(r"nvidia|\bamd\b|amdgcn|radeon|geforce|intel|cuda|rocm|pocl", re.IGNORECASE)


@pytest.mark.parametrize(
    "file",
    [*TEMPLATES, *sorted((ROOT / "clprim" / "plan").rglob("*.py")), ROOT / "clprim" / "traits.py"],
    ids=lambda file: file.name,
)
def test_plans_and_templates_name_no_vendor(file):
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
        assert not VENDORS.search(EXTENSIONS.sub("", line)), f"{file.name}:{number}: {line}"


def test_names_of_the_user_leave_components_numbers_and_pragmas_alone():
    text = "#pragma unroll\nunroll = a.s0 + s0 * 1.f + f;"
    assert _tidy(text, ("s0", "f", "unroll")) == (
        "#pragma unroll\ncp_unroll = a.s0 + cp_s0 * 1.f + cp_f;\n"
    )
