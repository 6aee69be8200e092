"""Handlers beside the schemas: what an operator has is taken, listed, or refused by its name."""

import pytest

onnx = pytest.importorskip("onnx")

from onnx import defs  # noqa: E402

from clprim.onnx.table import entry, load  # noqa: E402

load()
# What another value of is refused, as the handler computes the default: types of statistics.
REFUSED = {"stash_type", "activation_gamma"}
# Inputs that no CPU provider takes, and what is read before there are handlers.
SHORT = {"Attention", "GroupQueryAttention", "MultiHeadAttention"}
READ = {"Constant"}


def schemas():
    """ONNX's with all versions, and ONNX Runtime's where it is installed."""
    yield from defs.get_all_schemas_with_history()
    try:
        from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
    except ImportError:
        return
    yield from (s for s in get_all_operator_schema() if s.domain == "com.microsoft")


def test_every_attribute_input_and_output_of_a_schema_is_known():
    found, walked = [], 0
    for schema in schemas():
        known = entry(schema.domain, schema.name)
        if known is None or schema.name in READ:
            continue
        walked += 1
        what = f"{schema.domain} {schema.name} {schema.since_version}"
        old = {"axis", "broadcast"} if schema.since_version < 7 and not schema.domain else set()
        unknown = set(schema.attributes) - known.attributes() - old - REFUSED
        found += [f"{what}: attribute {name}" for name in unknown]
        for formals, most, label in (
            (schema.inputs, known.most(1 << 20), "inputs"),
            (schema.outputs, 1 << 20 if known.makes is None else known.makes, "outputs"),
        ):
            several = formals and str(formals[-1].option).endswith("Variadic")
            short = schema.domain and schema.name in SHORT and label == "inputs"
            if most < (1 << 20 if several else len(formals)) and not short:
                found.append(f"{what}: {label}")
    assert walked > 500
    assert not found, "\n".join(found)
