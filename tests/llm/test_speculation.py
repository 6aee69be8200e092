"""Texts whose tokens are guessed are those of the greatest scores, in fewer steps."""

import numpy as np
import pytest
from language_models import TINY, scored, write

import clprim as cp
import clprim.llm
from clprim.llm.model import Model
from clprim.llm.speculation import Lookup

RNG = np.random.default_rng(0)


def load(folder, name="gemma3", layers=7, weights=None):
    path = folder / f"{name}{layers}.gguf"
    found = write(path, name, scored(TINY), said={"block_count": layers}, weights=weights)
    return clprim.llm.load(path), found


@pytest.fixture
def steps(monkeypatch):
    """How many tokens each step of a model was given."""
    found = {}

    def counted(self, ids, place, *memory, before=Model.likeliest):
        found.setdefault(self, []).append(len(ids))
        return before(self, ids, place, *memory)

    monkeypatch.setattr(Model, "likeliest", counted)
    return found


def test_what_followed_before():
    lookup = Lookup()
    assert lookup.guess([1, 2, 3, 4], 3) == []
    assert lookup.guess([1, 2, 3, 4, 1, 2], 3) == [3, 4, 1]
    # Three tokens go before two, and the last place before others.
    text = [1, 2, 3, 4, 1, 2, 9, 2, 3, 5, 8, 2, 3]
    assert lookup.guess(text, 2) == [5, 8]
    assert lookup.guess([*text, 4, 1, 2, 3], 4) == [4, 1, 2, 9]
    assert lookup.guess([*text, 4, 1, 2, 3], 0) == []


def test_lookup(device, tmp_path, steps):
    model, _ = load(tmp_path)
    for start in (1, 5, 30):
        ids = RNG.integers(3, 259, start).tolist() * 2
        expected = model.generate(ids, tokens=60)
        text = "".join(expected)
        found = model.generate(ids, tokens=60, draft="lookup")
        assert "".join(found) == text and found.tokens == expected.tokens
    # A text that repeats itself is guessed: there are fewer steps than tokens.
    assert len(steps[model]) < 3 * 59


@pytest.mark.parametrize("same", [True, False])
def test_a_small_model(device, tmp_path, steps, same):
    model, weights = load(tmp_path)
    layers = 7 if same else 2
    few = {k: w for k, w in weights.items() if not k.startswith("blk.") or int(k[4]) < layers}
    draft, _ = load(tmp_path, layers=layers, weights=few)
    ids = RNG.integers(3, 259, 21).tolist()
    expected = model.generate(ids, tokens=41)
    text = "".join(expected)
    found = model.generate(ids, tokens=41, draft=draft)
    assert "".join(found) == text and found.tokens == expected.tokens
    if same:  # all guesses are right, but for rounding
        assert len(steps[model]) <= 10
    # The prompt, and then a token at a time behind what the model took.
    assert steps[draft][0] == 22 and set(steps[draft][1:]) <= set(range(1, 9))
    stopped = model.generate(ids, tokens=41, draft=draft, stop=text[10:13])
    assert "".join(stopped) == text[: text.index(text[10:13])]
    assert "".join(model.generate(ids, tokens=1, draft=draft)) == text[:1]


@pytest.mark.refusal
def test_refusals(device, tmp_path):
    model, _ = load(tmp_path, layers=1)
    other = tmp_path / "other.gguf"
    write(other, "llama", scored(TINY[:-1]))
    small = clprim.llm.load(tmp_path / "gemma31.gguf", context=9)
    for options, said in (
        ({"draft": "look"}, "draft='look': expected 'lookup' or a model"),
        ({"draft": 5}, "draft=5"),
        ({"draft": "lookup", "temperature": 1.0}, "needs temperature=0"),
        ({"draft": "lookup", "presence_penalty": 1.0}, "no penalties"),
        ({"draft": clprim.llm.load(other)}, "has other tokens"),
        ({"draft": small, "tokens": 9}, "11 tokens are more than the draft's context of 9"),
    ):
        with pytest.raises(cp.ClprimError, match=said):
            model.generate([5, 6], **options)
    with pytest.raises(cp.ClprimError, match="is for a text alone"):
        clprim.llm.Batch(model, 1).add(model.generate([5], draft="lookup"))
