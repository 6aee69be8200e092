"""Matrix units that work-items emulate, for operators whose kernels use them."""

import dataclasses

import pytest

from clprim.call.signature import Calls
from clprim.plan.product import matrix_tile
from clprim.plan.product.matrix_tile import MatrixTile


@pytest.fixture
def units(device, monkeypatch):
    """Gives the device emulated units of some names, and one small tile."""

    def use(*names, tile=(2, 1, 1, 2, 2, 3), **traits):
        emulated = tuple(f"emulated/{name}" for name in names)
        planned = dataclasses.replace(device.traits, matrix_units=emulated, **traits)
        monkeypatch.setitem(device.__dict__, "traits", planned)
        monkeypatch.setattr(matrix_tile, "_tiles", lambda _: (MatrixTile(*tile),))
        matrix_tile.matrix_tiles.cache_clear()
        Calls.forget()

    yield use
    matrix_tile.matrix_tiles.cache_clear()
    Calls.forget()
