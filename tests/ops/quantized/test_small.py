"""Numbers of 8 bits and less as codes, against `ml_dtypes`."""

import numpy as np
import pytest

ml_dtypes = pytest.importorskip("ml_dtypes")

import clprim as cp  # noqa: E402
from clprim import ops  # noqa: E402
from clprim.ops.quantized.small import SMALL  # noqa: E402

FLOATS = sorted(name for name in SMALL if name.startswith("float") and "e8m0" not in name)


def values(name):
    """Every number of a dtype, what lies between neighbours, and what is beyond all of them."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    codes = np.arange(256 if "float8" in name else 16, dtype=np.uint8)
    known = codes.view(dtype).astype(np.float32)
    line = np.unique(known[np.isfinite(known)])
    return np.concatenate([line, (line[1:] + line[:-1]) / 2]), codes, known, dtype


@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_the_nearest_ones(device, name):
    x, codes, known, dtype = values(name)
    found = ops.encode(cp.asarray(x), name)
    assert found.dtype == np.uint8
    expected = x.astype(dtype)
    np.testing.assert_array_equal(
        found.get().view(dtype).astype(np.float32), expected.astype(np.float32)
    )
    back = ops.decode(cp.asarray(codes), dtype)
    np.testing.assert_array_equal(back.get(), known)


@pytest.mark.parametrize("saturate", [True, False])
def test_what_is_beyond_saturates_if_it_is_to(device, saturate):
    given = cp.asarray(np.float32([1e6, -1e6, np.nan]))
    found = ops.decode(ops.encode(given, "float8_e4m3fn", saturate=saturate), "float8_e4m3fn")
    wanted = [448, -448, np.nan] if saturate else [np.nan] * 3
    np.testing.assert_array_equal(found.get(), np.float32(wanted))


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_integers_keep_their_low_bits(device, name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = np.arange(ml_dtypes.iinfo(dtype).min, int(ml_dtypes.iinfo(dtype).max) + 1)
    found = ops.encode(cp.asarray(x.astype(np.int32)), name)
    np.testing.assert_array_equal(found.get().view(dtype).astype(int), x)


@pytest.mark.parametrize(("rounding", "wanted"), [("up", 4), ("down", 2), ("nearest", 4)])
def test_powers_of_two_round_as_they_are_told(device, rounding, wanted):
    codes = ops.encode(cp.asarray(np.float32([3, 2])), "float8_e8m0fnu", rounding=rounding)
    np.testing.assert_array_equal(ops.decode(codes, "float8_e8m0fnu").get(), [wanted, 2])


@pytest.mark.refusal
def test_refusals(device):
    x = cp.zeros(3)
    for error, message, call in [
        (cp.DTypeError, "expected one of", lambda: ops.encode(x, "float8")),
        (cp.DTypeError, "expected uint8", lambda: ops.decode(x, "int4")),
        (cp.DefinitionError, "rounding='even'", lambda: ops.encode(x, "int4", rounding="even")),
    ]:
        with pytest.raises(error, match=message):
            call()
