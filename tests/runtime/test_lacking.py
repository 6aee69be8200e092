"""Without what a compiler lacks plans go another way, or say that there is none."""

import dataclasses

import numpy as np
import pytest
from support import numbers

import clprim as cp
from clprim import ops


def test_positions_are_long_from_the_beginning_where_widened_ones_compare_wrongly(
    device, monkeypatch
):
    traits = dataclasses.replace(device.traits, widened_comparisons=False)
    monkeypatch.setitem(device.__dict__, "traits", traits)
    monkeypatch.setattr(device, "index", f"{device.index} narrow")
    x = cp.zeros((3, 4))
    for text in ("y0 = x0 + index;", "y0 = x0 + coord(1);", "y0 = x0 + size(0);"):
        assert "typedef long index_t" in cp.Pointwise(text).source(x)
    assert "typedef int index_t" in cp.Pointwise("y0 = x0 + 1;").source(x)
    scan = cp.Scan("y0 = x0 * index;", init="scan_y0 = 0;", step="scan_y0 += y0;")
    assert "typedef long index_t" in scan.source(x, axis=1)
    last = cp.Reduction("y0 = x0 * index;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    assert "typedef long index_t" in last.source(x, axis=1)


@pytest.mark.oclgrind
def test_bytes_or_constants_are_refused_where_choices_of_them_are_wrong(device, monkeypatch):
    # llvmpipe's compiler died of them, or took other elements.
    if device.platform == "rusticl":
        assert not device.traits.byte_choices
    traits = dataclasses.replace(device.traits, byte_choices=False)
    monkeypatch.setitem(device.__dict__, "traits", traits)
    monkeypatch.setattr(device, "index", f"{device.index} bytes")
    host = np.arange(-5, 6, dtype=np.int8)
    x = cp.asarray(host)
    wrong = ("x0 < 0 ? 0 : x0", "!(x0 <= 3) ? (int)x0 : -7", "x0 < 0 ? 0 : x0 > 6 ? 6 : x0")
    for text in wrong:
        with pytest.raises(cp.DefinitionError, match="constant and x0 of int8; write min and max"):
            cp.Pointwise(f"y0 = {text};").source(x)
    step = "reduce_y0 += x0 < 0 ? 0 : x0;"
    with pytest.raises(cp.DefinitionError, match="x0 of int8"):
        cp.Reduction("", init="reduce_y0 = 0;", step=step).source(x)
    with pytest.raises(cp.DefinitionError, match="x0 of int8"):
        cp.Scan("y0 = x0 < 0 ? 0 : x0;", init="scan_y0 = 0;", step="scan_y0 += y0;").source(x)
    for text in ("x0 < 0 ? -x0 : x0", "x0 > 0 ? 1 : x0 < 0 ? -1 : 0", "x0; if (x0 < 0) y0 = 0"):
        assert cp.Pointwise(f"y0 = {text};").source(x)
    assert cp.Pointwise("y0 = x0 < 0 ? 0 : x0;").source(cp.asarray(host.astype(np.uint8)))
    written = cp.Pointwise("y0 = x0; if (x0 < 0) y0 = 0;")
    np.testing.assert_array_equal(written(x).get(), np.maximum(host, 0))


def test_long_work_of_a_work_item_is_refused_where_loops_are_cut_short(device, monkeypatch):
    # llvmpipe's sums lacked what came after 65,535 steps of all loops of a work-item.
    if device.platform == "rusticl":
        assert not device.traits.long_loops
    monkeypatch.setattr(device, "index", f"{device.index} short loops")
    traits = dataclasses.replace(
        device.traits, long_loops=False, compute_units=2, vector_bytes=16, max_work_group_size=256
    )
    monkeypatch.setitem(device.__dict__, "traits", traits)
    refused = []
    for rows, depth, columns in ((2, 64, 3), (64, 576, 196), (256, 2048, 256)):
        a, b = numbers((rows, depth)), numbers((depth, columns))
        try:
            y = ops.matmul(cp.asarray(a), cp.asarray(b), algorithm="panels").get()
        except cp.DefinitionError as error:
            assert "after 65,535 steps" in str(error)
            refused.append(depth)
        else:
            np.testing.assert_allclose(y, a @ b, rtol=1e-4, atol=1e-3)
    assert 64 not in refused
    assert 2048 in refused
