"""Options hold for a process, or for a block; wrong ones are refused before anything changes."""

import sys
import threading
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import clprim as cp
from clprim.options import Options, current_options


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys.modules["clprim.options"], "_process", None)
    monkeypatch.delenv("CLPRIM_CONVOLUTION_ERROR", raising=False)
    monkeypatch.delenv("CLPRIM_TUNE", raising=False)
    yield


def _in_a_thread() -> float:
    found: list[float] = []
    thread = threading.Thread(target=lambda: found.append(current_options().convolution_error))
    thread.start()
    thread.join()
    return found[0]


def test_a_block_ends_with_the_block_and_stays_in_its_thread() -> None:
    with cp.options(convolution_error=0) as inside:
        assert inside == current_options() == Options(0)
        assert _in_a_thread() == Options().convolution_error
        with cp.options(convolution_error=1e-3):
            assert current_options() == Options(1e-3)
        assert current_options() == Options(0)
    assert current_options() == Options()


def test_a_setting_holds_in_every_thread_until_the_next() -> None:
    cp.options(convolution_error=0)
    assert current_options() == Options(0)
    assert _in_a_thread() == 0
    cp.options(convolution_error=1)
    assert current_options() == Options(1)


def test_a_setting_in_a_block_ends_with_it() -> None:
    with cp.options(convolution_error=0):
        cp.options(convolution_error=2)
        assert current_options() == Options(2)
        assert _in_a_thread() == Options().convolution_error
    assert current_options() == Options()


def test_a_block_that_fails_restores_what_held() -> None:
    with pytest.raises(RuntimeError), cp.options(convolution_error=0):
        raise RuntimeError
    assert current_options() == Options()


def test_the_environment_decides_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLPRIM_CONVOLUTION_ERROR", "1e-7")
    assert current_options() == Options(1e-7)


@pytest.mark.parametrize("text", ["small", "", "-1", "nan"])
def test_a_wrong_value_in_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("CLPRIM_CONVOLUTION_ERROR", text)
    with pytest.raises(cp.DefinitionError, match=f"CLPRIM_CONVOLUTION_ERROR: .*{text}"):
        current_options()


@pytest.mark.parametrize("value", [-1, float("nan"), "x", "1", b"1", None, True, [1], 1j])
def test_wrong_values_are_refused(value: object) -> None:
    with pytest.raises(cp.DefinitionError, match="convolution_error"):
        cp.options(convolution_error=value)
    assert current_options() == Options()


@pytest.mark.parametrize("value", [np.float32(0.5), np.int64(1), Fraction(1, 2)])
def test_numbers_of_other_kinds_are_taken(value: Any) -> None:
    cp.options(convolution_error=value)
    assert current_options() == Options(float(value))
    assert type(current_options().convolution_error) is float


def test_an_unknown_option_names_those_that_there_are() -> None:
    with pytest.raises(cp.DefinitionError, match="tolerance is unknown; expected convolution_er"):
        cp.options(tolerance=1)


def test_tuning_is_on_or_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Options().tune is False
    with cp.options(tune=True):
        assert current_options() == Options(tune=True)
    for wrong in (1, 0, "yes", None):
        with pytest.raises(cp.DefinitionError, match=r"tune=.*: expected True or False"):
            cp.options(tune=wrong)
    for text, value in (("1", True), ("0", False)):
        monkeypatch.setattr(sys.modules["clprim.options"], "_process", None)
        monkeypatch.setenv("CLPRIM_TUNE", text)
        assert current_options().tune is value
    monkeypatch.setattr(sys.modules["clprim.options"], "_process", None)
    monkeypatch.setenv("CLPRIM_TUNE", "on")
    with pytest.raises(cp.DefinitionError, match="CLPRIM_TUNE: tune='on': expected 1 or 0"):
        current_options()


def test_precision_is_one_of_pytorchs_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Options().matmul_precision == "highest"
    with cp.options(matmul_precision="high"):
        assert current_options() == Options(matmul_precision="high")
    for wrong in ("low", "HIGH", None, 1, b"high"):
        with pytest.raises(cp.DefinitionError, match=r"matmul_precision=.*: expected one of 'high"):
            cp.options(matmul_precision=wrong)
    monkeypatch.setattr(sys.modules["clprim.options"], "_process", None)
    monkeypatch.setenv("CLPRIM_MATMUL_PRECISION", "medium")
    assert current_options().matmul_precision == "medium"
