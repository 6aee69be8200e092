"""A module imports from its own floor and from those below, as docs/design.md says."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# From the ground up; of the longest name that a module begins with.
FLOORS = (
    (
        "clprim.errors clprim.traits clprim.dtypes clprim.options clprim.text_table clprim.tuned",
        "the ground",
    ),
    ("clprim.language", "what kernels are written in"),
    ("clprim.plan clprim.render clprim.templates", "plans, and the templates that print them"),
    ("clprim.runtime", "devices"),
    ("clprim.arrays", "arrays"),
    ("clprim.call", "calls"),
    ("clprim.primitives clprim.gradients", "what launches, and its gradients"),
    ("clprim.graph", "graphs"),
    ("clprim clprim.ops clprim.functions clprim.random", "operators"),
    (
        "clprim.torch clprim.onnx clprim.llm clprim.autoload clprim.tune clprim.command "
        "clprim.__main__",
        "front ends, the tuner, the command line",
    ),
)


def floor(module):
    """The number of a module's floor, by the longest name that it begins with."""
    named = {name: n for n, (names, _) in enumerate(FLOORS) for name in names.split()}
    parts = module.split(".")
    while parts and ".".join(parts) not in named:
        parts.pop()
    return named[".".join(parts)]


def modules():
    """(name, file) of everything in the package."""
    for file in sorted((ROOT / "clprim").rglob("*.py")):
        yield ".".join(file.relative_to(ROOT).with_suffix("").parts), file
    for file in sorted((ROOT / "ops").rglob("*.py")):
        yield ".".join(("clprim", *file.relative_to(ROOT).with_suffix("").parts)), file


def imported(tree, known=()):
    """The modules of all imports that run, those inside of functions too.

    Where a module is imported from a package, it is that one, if it is ``known``.
    """
    typing_only = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.dump(branch.test)
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                named = whole in known or node.module in ("clprim", "clprim.ops")
                yield whole if named else node.module
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name


def lookings_up():
    """What imports from above."""
    for name, file in modules():
        if name == "clprim.__init__":  # the roof, which shows what users see
            continue
        here = floor(name.removesuffix(".__init__"))
        for module in imported(ast.parse(file.read_text(encoding="utf-8"))):
            if module.partition(".")[0] == "clprim" and floor(module) > here:
                yield f"{name} imports {module}"


def test_no_module_imports_from_a_floor_above():
    # Tiles that a user asked to have timed are timed where they are first asked for.
    known = [f"clprim.primitives.{name} imports clprim.tune.ask" for name in ("product", "strings")]
    assert sorted(lookings_up()) == known


def circles(edges):
    """Sets of modules of which each leads to all others: Tarjan's algorithm."""
    order, least, stack, found = {}, {}, [], []

    def walk(module):
        order[module] = least[module] = len(order)
        stack.append(module)
        for other in edges[module]:
            if other not in order:
                walk(other)
            if other in stack:
                least[module] = min(least[module], least[other])
        if least[module] == order[module]:
            place = stack.index(module)
            found.append({*stack[place:]})
            del stack[place:]

    for module in edges:
        if module not in order:
            walk(module)
    return [each for each in found if len(each) > 1]


def test_no_circle_of_imports_is_larger_than_three_modules():
    named = {name.removesuffix(".__init__"): file for name, file in modules()}
    edges = {}
    for name, file in named.items():
        # From a package its modules are imported, not what the package shows.
        whole = imported(ast.parse(file.read_text(encoding="utf-8")), named)
        edges[name] = {module for module in whole if module in named} - {name}
    assert not [each for each in circles(edges) if len(each) > 3]


def test_circles_are_found():
    edges = {"a": "b", "b": "cd", "c": "a", "d": "e", "e": "d", "f": "a", "g": ""}
    assert sorted(map(sorted, circles(edges))) == [["a", "b", "c"], ["d", "e"]]


def test_the_map_names_every_folder():
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = text.split("## Floors")[1].split("## Decisions")[0]
    for folder in (ROOT / "clprim").iterdir():
        if folder.is_dir() and (folder / "__init__.py").is_file() and folder.name != "tuned":
            assert f"{folder.name}/" in table, f"{folder.name}/ is on no floor of docs/design.md"


def test_the_map_names_every_package():
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = text.split("## Folders")[1].split("## Decisions")[0]
    for file in sorted(ROOT.glob("*/*/**/__init__.py")):
        folder = file.parent.relative_to(ROOT).as_posix()
        if folder.split("/")[0] in ("clprim", "ops", "bench"):
            assert f"`{folder}/`" in table, f"{folder}/ is not in the folders of docs/design.md"


def test_every_path_on_the_map_exists():
    pages = [ROOT / "docs" / "design.md", *(ROOT / "docs" / "kernels").glob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    roots = (ROOT, ROOT / "clprim", ROOT / "templates")
    paths = re.findall(r"`([\w*./]+(?:/|\.py|\.jinja|\.json|\.cl))`", text)
    assert len(paths) > 80
    for path in paths:
        if "FAMILY" in path:
            continue
        # A name without a folder is of a file that the sentence's folder holds.
        found = any([*root.glob(path)] for root in roots) or (
            "/" not in path and any([*root.rglob(path)] for root in roots[1:])
        )
        assert found, f"the map, or a page of kernels, names {path}, which does not exist"


def test_the_reference_names_every_module_of_operators():
    pages = (ROOT / "docs" / "reference").glob("*.md")
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages) + "\n"
    for path in (ROOT / "ops").glob("*/*.py"):
        text_of = path.read_text(encoding="utf-8")
        optim = path.parent.name == "optim" and path.name != "__init__.py"
        if "@operator" in text_of or (optim and "__all__" in text_of):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            assert f"::: {name}\n" in text, f"{name} is on no page of docs/reference"


def test_no_body_of_a_function_is_longer_than_100_lines():
    long = []
    for name, file in modules():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) and node.body[1:] else node.body
                lines = (node.end_lineno or 0) - body[0].lineno + 1
                long += [f"{name}.{node.name}: {lines}"] if lines > 100 else []
    assert not long
