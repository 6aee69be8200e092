"""Memory of temporaries: given back part by part, then as a whole."""

import clprim as cp
from clprim.graph import replay


class Part:
    def __init__(self, name, released):
        self.name, self._released = name, released

    def release(self):
        self._released.append(self.name)


def test_parts_are_released_before_the_whole():
    released = []
    parts = replay.Parts(Part("whole", released), {n: Part(n, released) for n in range(3)})
    assert [part.name for part in parts.values()] == [0, 1, 2]
    del parts
    assert released == [0, 1, 2, "whole"]


def test_temporaries_lie_in_such_parts(device):
    compiled = cp.jit(lambda x: (x * 2).sum(axis=0) @ x)
    x = cp.asarray([[1.0, 2.0], [3.0, 4.0]])
    compiled(x)
    (known,) = compiled._known.values()
    assert isinstance(known.replay._temporaries, replay.Parts)
