"""The algebra of Winograd's minimal filtering F(m, r), for any m, r and stride.

A correlation with r taps is a product of polynomials, which is known by its
values at as many points as it has coefficients. Cook and Toom's algorithm evaluates both factors at
such points, multiplies the values and interpolates:

    y = Aᵀ ((G g) ⊙ (Bᵀ d))          m outputs y, r taps g, a = m + r − 1 inputs d

with ``a`` products instead of ``m · r``. Of windows of stride s every phase is a correlation by
itself, of every s-th input and every s-th tap: their algorithms stand side by side, with
s · m + r − s products together, and outputs are sums of theirs. A convolution of images does so
along both axes. All matrices are exact rationals; see Lavin and Gray, "Fast Algorithms for
Convolutional Neural Networks", arXiv 1509.09308, and for errors by points Barabasz et al., arXiv
1803.10986.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

Matrix = tuple[tuple[Fraction, ...], ...]

# Points beside 0 and infinity, by how many there are, in pairs ±p but for a last one. Of all sets
# of fractions with few bits, those whose errors are least (`Transform.growth`); products of their
# powers are exact in float32.
_POINTS: dict[int, tuple[str, ...]] = {
    0: (),
    1: ("1",),
    2: ("1", "-1"),
    3: ("11/8", "-11/8", "1/2"),
    4: ("5/8", "-5/8", "3/2", "-3/2"),
    5: ("7/8", "-7/8", "7/4", "-7/4", "3/8"),
    6: ("1/2", "-1/2", "1", "-1", "2", "-2"),
    7: ("3/4", "-3/4", "9/8", "-9/8", "5/2", "-5/2", "1/4"),
}
# Bound: squared errors, in units of (unit roundoff · growth)²: of the transforms, and of each
# addition of a product to a sum. With 1.3 and 0.095 this is what random numbers gave, for all
# F(m, r) alike.
_TRANSFORMS, _ADDITION = 2.0, 0.125


@dataclass(frozen=True)
class Sum:
    """One step of a transform: ``name = Σ factor · operand``, added up in this order."""

    name: str
    terms: tuple[tuple[Fraction, str], ...]


@dataclass(frozen=True)
class Linear:
    """A product with a matrix as a sequence of sums that share what they have in common."""

    steps: tuple[Sum, ...]  # In order; they read inputs and earlier steps
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @staticmethod
    def of(matrix: Matrix, source: str, result: str) -> Linear:
        """Returns the steps of ``matrix · source``, with names such as ``d0`` and ``v0``."""
        # Points ±p give pairs of rows that share an even and an odd part, or pairs of columns whose
        # operands are only seen as sum and difference.
        inputs = tuple([f"{source}{k}" for k in range(len(matrix[0]))])
        outputs = tuple([f"{result}{k}" for k in range(len(matrix))])
        unit, whole = _whole(matrix)
        steps: list[Sum] = []
        for number, (some, others) in enumerate(_blocks(whole)):
            block = [[whole[i][j] for j in others] for i in some]
            names = [inputs[j] for j in others], [outputs[i] for i in some]
            parts = f"{source}{number or ''}"
            found = [pairs(block, unit, parts, *names) for pairs in (_row_pairs, _column_pairs)]
            steps += min(found, key=lambda steps: sum([len(s.terms) - 1 for s in steps]))
        return Linear(tuple(steps), inputs, outputs)

    @property
    def operations(self) -> int:
        """Multiply-adds, additions and products."""
        return sum(max(1, len(s.terms) - 1) for s in self.steps)

    def run(self, values: Sequence[Fraction]) -> list[Fraction]:
        """Returns the results of exact inputs."""
        known = dict(zip(self.inputs, values, strict=True))
        for step in self.steps:
            known[step.name] = sum((f * known[o] for f, o in step.terms), Fraction(0))
        return [known[name] for name in self.outputs]


@dataclass(frozen=True, eq=False)
class Transform:
    """F(m, r): ``m`` outputs of ``r`` taps by ``m + r − 1`` products; s·m + r − s of a stride s."""

    m: int
    r: int
    output: Matrix
    weight: Matrix  # G, a row for each weight that differs from all others
    input: Matrix  # Bᵀ, a row for each product
    # Which row of G a product takes; products that share one follow each other
    shares: tuple[int, ...]
    stride: int = 1  # Inputs from one window to the next

    @property
    def size(self) -> int:
        """Elements of a transformed tile: products."""
        return len(self.input)

    @property
    def weights(self) -> int:
        """Elements of transformed taps."""
        return len(self.weight)

    @property
    def reads(self) -> int:
        """Inputs of a tile."""
        return len(self.input[0])

    @property
    def step(self) -> int:
        """Inputs from one tile to the next."""
        return self.stride * self.m

    @cached_property
    def _squares(self) -> tuple[Any, Any]:
        """Σ_i Aᵀ²[i, k] · |Bᵀ[k]|² of every product k, and its row of G."""
        output, weight, data = (
            np.array([[n / d for n, d in row] for row in _ratios(matrix)])
            for matrix in (self.output, self.weight, self.input)
        )
        return (output**2).sum(axis=0) * (data**2).sum(axis=1), weight[list(self.shares)]

    @cached_property
    def most_growth(self) -> float:
        """`growth` with the taps g that have most of it, such as those of a mean, of length 1."""
        # The root of the largest of Σ_ik Aᵀ²[i, k] · (G g)²[k] · |Bᵀ[k]|² / m.
        products, weight = self._squares
        most = np.linalg.eigvalsh(weight.T * (products / self.m) @ weight)[-1]
        return math.sqrt(float(most))

    @cached_property
    def growth(self) -> float:
        """By how much rounding errors of products outgrow those of the sum of ``r`` products."""
        # Of independent random numbers: the root of the mean over outputs of Σ_k Aᵀ²[i, k] ·
        # |G[k]|² · |Bᵀ[k]|² / r.
        products, weight = self._squares
        return math.sqrt(float(products @ (weight**2).sum(axis=1)) / (self.m * self.r))


@lru_cache(maxsize=64)
def transform(m: int, r: int, stride: int = 1) -> Transform:
    """Returns F(m, r); ``r`` = 1 transforms nothing."""
    if stride > 1:
        return _phases(m, r, stride)
    if r == 1:
        same = tuple(tuple(Fraction(i == k) for k in range(m)) for i in range(m))
        return Transform(m, 1, same, ((Fraction(1),),), same, (0,) * m)
    finite = m + r - 2
    if finite == 0:
        raise ValueError(f"F({m}, {r}) has no tile")
    # Points are n / d, so that all is whole until the end.
    fractions = [Fraction(point) for point in ("0", *_POINTS[finite - 1])]
    d = math.lcm(*[p.denominator for p in fractions])
    points = [p.numerator * (d // p.denominator) for p in fractions]
    output = [[*[Fraction(n**i, d**i) for n in points], Fraction(i == m - 1)] for i in range(m)]
    weight, inputs = [], []
    for k, n in enumerate(points):
        others = points[:k] + points[k + 1 :]
        scale = math.prod([n - other for other in others])
        weight.append([Fraction(n**j * d ** len(others), d**j * scale) for j in range(r)])
        inputs.append([*_polynomial(others, d), Fraction(0)])
    weight.append([Fraction(j == r - 1) for j in range(r)])
    inputs.append(_polynomial(points, d))
    shares = tuple(range(m + r - 1))
    return Transform(m, r, _matrix(output), _matrix(weight), _matrix(inputs), shares)


def _phases(m: int, r: int, stride: int) -> Transform:
    """F(m, r) of windows of a stride: every phase by itself, one beside the other."""
    output: list[list[Fraction]] = [[] for _ in range(m)]
    weight: list[list[Fraction]] = []
    inputs: list[list[Fraction]] = []
    shares: list[int] = []
    for phase in range(min(stride, r)):
        part = transform(m, len(range(phase, r, stride)))

        def apart(row: Sequence[Fraction], length: int, phase: int = phase) -> list[Fraction]:
            found = [Fraction(0)] * length
            for k, factor in enumerate(row):
                found[phase + stride * k] = factor
            return found

        output = [[*rows, *more] for rows, more in zip(output, part.output, strict=True)]
        shares += [len(weight) + share for share in part.shares]
        weight += [apart(row, r) for row in part.weight]
        inputs += [apart(row, stride * (m - 1) + r) for row in part.input]
    matrices = _matrix(output), _matrix(weight), _matrix(inputs)
    return Transform(m, r, *matrices, tuple(shares), stride)


def _matrix(rows: Sequence[Sequence[Fraction]]) -> Matrix:
    return tuple(map(tuple, rows))


def relative_error(
    rows: Transform,
    columns: Transform,
    channels: int,
    unit: float,
    *,
    chain: int | None = None,
    random_taps: bool = False,
) -> float:
    """Returns the root mean square error of a convolution, relative to that of its result."""
    # An upper estimate for independent inputs and any taps, no bound for the worst inputs.
    growth = math.prod(t.growth if random_taps else t.most_growth for t in (rows, columns))
    chain = min(chain or channels, channels)
    additions = chain + (-(-channels // chain) if chain < channels else 0)
    return unit * growth * math.sqrt(_TRANSFORMS + _ADDITION * additions)


def sum_error(products: int, unit: float) -> float:
    """Returns the same of a sum of so many products, one after another."""
    return unit * math.sqrt(_ADDITION * products)


def _polynomial(roots: Sequence[int], unit: int) -> list[Fraction]:
    """Returns the coefficients of Π (x − root / unit), the constant one first."""
    found = [1]
    for root in roots:
        found = [s - root * c for s, c in zip([0, *found], [*found, 0], strict=True)]
    return [Fraction(c, unit ** (len(roots) - k)) for k, c in enumerate(found)]


def _ratios(matrix: Matrix) -> list[list[tuple[int, int]]]:
    return [list(map(Fraction.as_integer_ratio, row)) for row in matrix]


def _whole(matrix: Matrix) -> tuple[int, list[list[int]]]:
    """A matrix in whole numbers of one over the first result."""
    ratios = _ratios(matrix)
    unit = math.lcm(*[denominator for row in ratios for _, denominator in row])
    return unit, [[n * (unit // denominator) for n, denominator in row] for row in ratios]


def _terms(factors: Mapping[str, int], unit: int) -> tuple[tuple[Fraction, str], ...]:
    """Terms that are not 0, those with the factor 1 first: they need no product."""
    present = [(name, f) for name, f in factors.items() if f]
    ranked = [(abs(f) != abs(unit), f * unit < 0, n, f) for n, (_, f) in enumerate(present)]
    return tuple([(Fraction(f, unit), present[n][0]) for *_, n, f in sorted(ranked)])


def _blocks(matrix: Sequence[Sequence[int]]) -> list[tuple[list[int], list[int]]]:
    """Rows and columns of the parts of a matrix that have nothing in common."""
    found: list[tuple[list[int], list[int]]] = []
    for i, row in enumerate(matrix):
        rows, columns = [i], {j for j, factor in enumerate(row) if factor}
        for block in [b for b in found if columns & set(b[1])]:
            found.remove(block)
            rows, columns = block[0] + rows, columns | set(block[1])
        found.append((sorted(rows), sorted(columns)))
    return sorted(found)


def _row_pairs(
    matrix: Sequence[Sequence[int]],
    unit: int,
    source: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> list[Sum]:
    steps, done = [], set()
    for i, j in _alternating(matrix):
        even = {n: f for n, f in zip(inputs[::2], matrix[i][::2], strict=True) if f}
        odd = {n: f for n, f in zip(inputs[1::2], matrix[i][1::2], strict=True) if f}
        if len(even) < 2 and len(odd) < 2:
            continue
        same = matrix[i][0::2] == matrix[j][0::2]
        parts = []
        for part, factors in (("e", even), ("o", odd)):
            if len(factors) == 1:
                ((name, factor),) = factors.items()
            else:
                # Its last factor becomes 1.
                name, factor = f"{source}_{part}{i}", list(factors.values())[-1]
                steps.append(Sum(name, _terms(factors, factor)))
            parts.append((factor, name))
        (e, e_name), (o, o_name) = parts
        sign = 1 if same else -1
        steps.append(Sum(outputs[i], _terms({e_name: e, o_name: o}, unit)))
        steps.append(Sum(outputs[j], _terms({e_name: sign * e, o_name: -sign * o}, unit)))
        done |= {i, j}
    for i, row in enumerate(matrix):
        if i not in done:
            steps.append(Sum(outputs[i], _terms(dict(zip(inputs, row, strict=True)), unit)))
    return steps


def _column_pairs(
    matrix: Sequence[Sequence[int]],
    unit: int,
    source: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> list[Sum]:
    steps: list[Sum] = []
    columns = tuple(zip(*matrix, strict=True))
    pairs = dict(_alternating(columns))
    if len(matrix) == 1:
        pairs = {}
    for i, j in pairs.items():
        one = Fraction(1)
        # Where the first of a pair is the second in its even elements, a sum meets even rows.
        sign = one if columns[i][::2] == columns[j][::2] else -one
        steps.append(Sum(f"{source}_s{i}", ((one, inputs[i]), (sign, inputs[j]))))
        steps.append(Sum(f"{source}_d{i}", ((one, inputs[i]), (-sign, inputs[j]))))
    for k, row in enumerate(matrix):
        factors = {}
        for i, name in enumerate(inputs):
            if i in pairs:
                factors[f"{source}_{'sd'[k % 2]}{i}"] = row[i]
            elif i not in pairs.values():
                factors[name] = row[i]
        steps.append(Sum(outputs[k], _terms(factors, unit)))
    return steps


def _alternating(rows: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Pairs of rows whose even elements, or whose odd ones, differ in their sign only."""
    pairs: list[tuple[int, int]] = []
    taken: set[int] = set()
    for i, row in enumerate(rows):
        for j in range(i + 1, len(rows)):
            if {i, j} & taken or not any(row[::2]) or not any(row[1::2]):
                continue
            flipped = [-f if k % 2 else f for k, f in enumerate(row)]
            if list(rows[j]) in (flipped, [-f for f in flipped]):
                pairs.append((i, j))
                taken |= {i, j}
    return pairs
