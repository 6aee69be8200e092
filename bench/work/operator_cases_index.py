"""Rows of ``python -m bench ops``: indices, scans, order, attention, a step of Adam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.work.operator_case import Call, Input, OpCase, functional, gradient, plain, torch_module
from clprim import ops


def _gather(quick: bool) -> list[OpCase]:
    rows = 64 if quick else 4096
    table, tokens = (100, 32) if quick else (50257, 8192)
    weight, words = Input((table, 256)), Input((tokens,), table)
    lines, places = Input((rows, 1024)), Input((rows, 1024), 1024)
    family = "gather"
    return [
        OpCase(
            family,
            "gather along lines",
            (lines, places),
            *plain(lambda x, i: ops.gather(x, 1, i), lambda t, i: t.gather(1, i)),
        ),
        OpCase(
            family,
            "gather along columns",
            (lines, Input((rows, 1024), rows)),
            *plain(lambda x, i: ops.gather(x, 0, i), lambda t, i: t.gather(0, i)),
        ),
        OpCase(
            family,
            "index_select of rows",
            (weight, words),
            *plain(lambda x, i: ops.index_select(x, 0, i), lambda t, i: t.index_select(0, i)),
        ),
        OpCase(
            family,
            "embedding",
            (words, weight),
            *plain(ops.embedding, lambda i, t: functional().embedding(i, t)),
        ),
    ]


def _scatter(quick: bool) -> list[OpCase]:
    few, many = (16, 64) if quick else (4096, 65536)
    table, tokens = (100, 32) if quick else (50257, 8192)
    family = "scatter_add"
    lines, places = Input((few, 1024)), Input((few, 1024), 1024)

    def add(x: Any, i: Any, s: Any, dim: int) -> Any:
        return x.scatter_add(dim, i, s)

    return [
        OpCase(
            family,
            "scatter_add along lines",
            (lines, places, lines),
            *plain(lambda x, i, s: ops.scatter_add(x, 1, i, s), lambda t, i, s: add(t, i, s, 1)),
        ),
        OpCase(
            family,
            "scatter_add of a long line",
            (Input((many,)), Input((16 * many,), many), Input((16 * many,))),
            *plain(lambda x, i, s: ops.scatter_add(x, 0, i, s), lambda t, i, s: add(t, i, s, 0)),
        ),
        OpCase(
            family,
            "index_add of rows",
            (Input((few, 64)), Input((many,), few), Input((many, 64))),
            *plain(lambda x, i, s: ops.index_add(x, 0, i, s), lambda t, i, s: t.index_add(0, i, s)),
        ),
        OpCase(
            family,
            "embedding, backward",
            (Input((tokens, 256)), Input((tokens,), table), Input((table, 256))),
            lambda g, i, w: lambda: (ops.embedding_backward(g, i, w.shape[0]),),
            gradient(lambda i, t: functional().embedding(i, t)),
        ),
    ]


def _cumsum(quick: bool) -> list[OpCase]:
    rows, long = (16, 4096) if quick else (4096, 1 << 22)
    return [
        OpCase(
            "cumsum",
            title,
            (Input(shape),),
            *plain(lambda x, d=dim: ops.cumsum(x, d), lambda t, d=dim: t.cumsum(d)),
        )
        for title, shape, dim in (
            ("along lines of 1024", (rows, 1024), 1),
            ("along columns of 4096", (rows, 1024), 0),
            ("along one line of 4 Mi", (long,), 0),
        )
    ]


def _order(quick: bool) -> list[OpCase]:
    by = 16 if quick else 1
    found = [
        OpCase(
            "sort",
            title,
            (Input(shape, below),),
            lambda x: lambda: ops.sort(x, -1)[:1],
            lambda t: lambda: t.sort(-1)[:1],
        )
        for title, shape, below in (
            ("lines of 64", (65536 // by, 64), 0),
            ("lines of 1000", (2048 // by, 1000), 0),
            ("lines of 16384", (64 // by, 16384), 0),
            ("one line of 1 Mi", ((1 << 20) // by,), 0),
            ("one line of 1 Mi integers below 1000", ((1 << 20) // by,), 1000),
        )
    ]
    found += [
        OpCase(
            "topk",
            title,
            (Input(shape),),
            lambda x, k=k: lambda: ops.topk(x, k, -1)[:1],
            lambda t, k=k: lambda: t.topk(k, -1)[:1],
        )
        for title, shape, k in (
            ("5 of 1000", (4096 // by, 1000), 5),
            ("50 of 50257", (64 // by, 50257), 50),
            ("1000 of 120000", (16 // by, 120000 // by), 1000),
            ("100 of 4 Mi", ((1 << 22) // by,), 100),
        )
    ]
    return found


def _attention(quick: bool) -> list[OpCase]:
    found = []
    for heads, tokens in ((8, 1024), (2, 4096)):
        shape = (1, heads, 64 if quick else tokens, 64)
        given = (Input(shape),) * 3
        for causal in (False, True):

            def mine(q: Any, k: Any, v: Any, causal: bool = causal) -> Any:
                return ops.scaled_dot_product_attention(q, k, v, is_causal=causal)

            def other(q: Any, k: Any, v: Any, causal: bool = causal) -> Any:
                return functional().scaled_dot_product_attention(q, k, v, is_causal=causal)

            title = f"{tokens} tokens{', causal' if causal else ''}"
            found.append(OpCase("attention", title, given, *plain(mine, other)))

            def back(g: Any, q: Any, k: Any, v: Any, causal: bool = causal) -> Call:
                forward = ops.scaled_dot_product_attention
                y, sums, _ = forward(q, k, v, is_causal=causal, return_stats=True)  # type: ignore[misc]
                gradient = ops.scaled_dot_product_attention_backward
                return lambda: gradient(g, q, k, v, y, sums, is_causal=causal)

            title += ", backward"
            found.append(OpCase("attention", title, (Input(shape), *given), back, gradient(other)))
    return found


def _adam(quick: bool) -> list[OpCase]:
    one = (Input((1000 if quick else 1 << 22,)),)
    # Basic blocks of a small residual network: weights, and pairs of vectors.
    layers: list[Input] = []
    for width in (64, 128, 256):
        for _ in range(4):
            layers += [Input((width, width, 3, 3)), Input((width,)), Input((width,))]
    some = tuple(layers[:3] if quick else layers)

    def mine(*given: Any) -> Call:
        half = len(given) // 2
        params = ops.optim.flat(given[:half])
        grads = ops.optim.flat(given[half:])
        first, second = ops.optim.flat(params, fill=0), ops.optim.flat(params, fill=0)

        def call() -> Sequence[Any]:
            ops.optim.adam(params, grads, first, second, step=1)
            return params

        return call

    def other(*given: Any) -> Call:
        half = len(given) // 2
        params = [t.clone().requires_grad_() for t in given[:half]]
        for param, grad in zip(params, given[half:], strict=True):
            param.grad = grad
        optimizer = torch_module().optim.Adam(params, fused=True)

        def call() -> Sequence[Any]:
            optimizer.step()
            return [param.detach() for param in params]

        return call

    return [
        OpCase("Adam", "one parameter of 4 Mi", one * 2, mine, other),
        OpCase("Adam", f"{len(some)} parameters", some * 2, mine, other),
    ]


def more_cases(*, quick: bool) -> list[OpCase]:
    """Return the rows of these families.

    Args:
        quick: Whether arrays are to be small.
    """
    families = (_gather, _scatter, _cumsum, _order, _attention, _adam)
    return [case for family in families for case in family(quick)]
