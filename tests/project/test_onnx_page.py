"""`docs/onnx.md`'s table is made from ONNX's schemas and the table of handlers.

``python -m pytest tests/project/test_onnx_page.py --update-golden`` rewrites it.
"""

from pathlib import Path

import pytest

pytest.importorskip("onnx")

from onnx import defs

from clprim.onnx.reference import way
from clprim.onnx.table import names

PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"
MARK = "<!-- operators -->\n"
DOMAINS = {
    "": "ai.onnx",
    "ai.onnx.ml": "ai.onnx.ml",
    "ai.onnx.preview": "ai.onnx.preview",
    "ai.onnx.preview.training": "ai.onnx.preview.training",
}
# Handlers that compute with NumPy, and old operators that no reference computes.
HOST = {("", "NonMaxSuppression")}


def rows():
    """A line for each operator of each domain."""
    versions = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain in DOMAINS:
            versions.setdefault((schema.domain, schema.name), []).append(schema.since_version)
    for domain, title in DOMAINS.items():
        yield f"## {title}\n\n| operator | versions | computed by |\n|---|---|---|\n"
        for (where, name), since in sorted(versions.items()):
            if where == domain:
                how = "host" if (domain, name) in HOST else way(domain, name, max(since))
                listed = ", ".join(map(str, sorted(since)))
                yield f"| `{name}` | {listed} | {how or 'nothing: refused'} |\n"
        yield "\n"
    yield "## com.microsoft\n\n| operator |\n|---|\n"
    for domain, name in names():
        if domain == "com.microsoft":
            yield f"| `{name}` |\n"


def test_the_table_says_what_computes_each_operator(request):
    text = PAGE.read_text(encoding="utf-8")
    head = text[: text.index(MARK) + len(MARK)]
    wanted = f"{head}\n{''.join(rows())}"
    if request.config.getoption("--update-golden"):
        PAGE.write_text(wanted, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == wanted
