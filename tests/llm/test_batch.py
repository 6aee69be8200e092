"""Texts that are continued together beside each of them alone."""

import numpy as np
import pytest
from language_models import TINY, scored, write

import clprim as cp
import clprim.llm
from clprim.llm.batch import PIECE, Batch

RNG = np.random.default_rng(0)


@pytest.fixture
def model(device, tmp_path):
    write(tmp_path / "tiny.gguf", "gemma3", scored(TINY), said={"context_length": 600})
    return clprim.llm.load(tmp_path / "tiny.gguf")


def prompts(count):
    return [RNG.integers(3, 259, RNG.integers(1, 40)).tolist() for _ in range(count)]


def served(batch, asked, after=0):
    """What each text becomes; one joins every so many steps."""
    texts, found = [], {}
    left = list(asked)
    steps = 0
    while left or batch.busy:
        if left and steps % (after + 1) == 0:
            texts.append(batch.add(left.pop(0)))
            found[id(texts[-1])] = ""
        for text, piece in batch.step():
            found[id(text)] += piece
        steps += 1
    return [(found[id(text)], text.tokens, text.ending) for text in texts]


def alone(generation):
    text = "".join(generation)
    return text, generation.tokens


SAMPLED = {"temperature": 1.5, "top_k": 40, "top_p": 0.95, "repetition_penalty": 1.1}


@pytest.mark.parametrize("after", [0, 3])
def test_each_text_is_what_it_is_alone(model, after):
    """Some are drawn, some end before others, and there are more than have a place."""
    told = [
        {"tokens": 6 + 5 * (n % 4), "seed": n, **(SAMPLED if n % 3 == 1 else {})} for n in range(9)
    ]
    given = prompts(9)
    expected = [alone(model.generate(p, **o)) for p, o in zip(given, told, strict=True)]
    batch = Batch(model, 5)
    found = served(batch, [model.generate(p, **o) for p, o in zip(given, told, strict=True)], after)
    assert [each[:2] for each in found] == expected
    assert {each[2] for each in found} == {"length"}


def test_a_long_prompt_comes_in_pieces_between_which_others_go_on(model):
    batch = Batch(model, 2)
    short, long = [5, 6], RNG.integers(3, 259, 3 * PIECE + 7).tolist()
    expected = [alone(model.generate(p, tokens=20)) for p in (short, long)]
    first = batch.add(model.generate(short, tokens=20))
    batch.step()
    second = batch.add(model.generate(long, tokens=20))
    texts = {first: model.detokenize(first.tokens), second: ""}
    before = len(first.tokens)
    while batch.busy:
        for text, piece in batch.step():
            texts[text] += piece
            if text is second and len(second.tokens) == 1:
                assert len(first.tokens) >= before + 4
    assert [(texts[t], t.tokens) for t in (first, second)] == expected


def test_stops_and_texts_that_are_dropped(model):
    whole = alone(model.generate([40, 41], tokens=30))[0]
    end = whole[4:7]
    batch = Batch(model, 2)
    asked = [model.generate([40, 41], tokens=30, stop=end)]
    asked += [model.generate([40, 41], tokens=n) for n in (30, 5, 0)]
    texts = [batch.add(each) for each in asked]
    found = dict.fromkeys(texts, "")
    for step in range(40):
        for text, piece in batch.step():
            found[text] += piece
        if step == 2:
            batch.drop(texts[1])
            taken = len(texts[1].tokens)
    assert found[texts[0]] == whole[: whole.index(end)] and texts[0].ending == "stop"
    assert texts[1].ending is None and len(texts[1].tokens) == taken < 5
    assert texts[2].ending == "length" and whole.startswith(found[texts[2]]) and found[texts[2]]
    assert texts[3].ending == "length" and not texts[3].tokens
    assert not batch.busy
    waiting = batch.add(model.generate([5], tokens=3))
    batch.drop(waiting)
    assert not batch.busy
    batch.add(model.generate([5] * 300, tokens=3))
    batch.step()
    batch.clear()
    assert not batch.busy and batch.step() == []


@pytest.mark.refusal
def test_refusals(model):
    with pytest.raises(cp.DTypeError, match="Batch: expected a loaded model, got 5"):
        Batch(5)
    for texts, said in ((17, "texts=17: expected at most 16"), (0, "at least 1")):
        with pytest.raises(cp.ClprimError, match=said):
            Batch(model, texts)
