"""What tests of attention share."""

import pytest

from clprim.ops.attention import problem, scaled_dot_product


@pytest.fixture
def by_blocks(monkeypatch):
    """Leaves attention to blocks of queries: no kernel of its own, and several of them."""

    def leave(size=1):  # 16 queries a block
        monkeypatch.setattr(problem, "BLOCK_BYTES", size)
        monkeypatch.setattr(scaled_dot_product, "attend", lambda *_: False)
        monkeypatch.setattr(scaled_dot_product, "attend_few", lambda *_: False)
        monkeypatch.setattr(scaled_dot_product, "differentiate", lambda *_: None)

    return leave
