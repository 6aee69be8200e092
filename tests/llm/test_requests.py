"""Requests in OpenAI's form, and the thread that continues their texts; no package is needed."""

import json
import queue

import numpy as np
import pytest
from language_models import TEMPLATE, TINY, scored, write

import clprim as cp
import clprim.llm
from clprim.llm import worker as workers
from clprim.llm.requests import WrongRequestError, read_request
from clprim.llm.worker import Worker


@pytest.fixture
def model(device, tmp_path):
    more = [("tokenizer.chat_template", TEMPLATE)]
    write(tmp_path / "tiny.gguf", "llama", scored(TINY), more=more)
    return clprim.llm.load(tmp_path / "tiny.gguf")


def read(tiny, chat=False, **given):
    return read_request(json.dumps(given).encode(), chat, tiny, "tiny")


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("given", "said", "param"),
    [
        ({"prompt": "x", "n": 2}, "n=2 is not supported", "n"),
        ({"prompt": "x", "logprobs": 0}, "logprobs=0 is not supported", "logprobs"),
        ({"prompt": "x", "tools": [{}]}, "tools=", "tools"),
        ({"prompt": "x", "echo": True}, "echo=True is not supported", "echo"),
        ({"prompt": "x", "tokens": 3}, "no argument 'tokens'", "tokens"),
        ({"prompt": "x", "messages": []}, "no argument 'messages'", "messages"),
        ({"prompt": "x", "model": "gpt-4"}, "model='gpt-4' is not here", "model"),
        ({"prompt": "x", "stream": 1}, "stream=1: expected true or false", "stream"),
        ({"prompt": "x", "stream_options": {"x": 1}}, "stream=true", "stream_options"),
        ({}, "prompt: expected a string", "prompt"),
        ({"prompt": [1.5]}, "prompt: expected", "prompt"),
        ({"prompt": ["x", 5]}, "prompt: expected", "prompt"),
        ({"prompt": ["x"] * 17}, "17 prompts", "prompt"),
        ({"prompt": []}, "expected a token", None),
        ({"prompt": [True]}, "prompt: expected", "prompt"),
        ({"prompt": [999999]}, "999999 is no token", None),
        ({"prompt": "x", "max_tokens": 9999}, "more than the context of 128", None),
        ({"prompt": "x", "max_tokens": "5"}, "tokens", None),
        ({"prompt": "x", "temperature": -1}, "temperature=-1", None),
        ({"prompt": "x", "temperature": "hot"}, "temperature", None),
        ({"prompt": "x", "top_p": 2}, "top_p=2", None),
        ({"prompt": "x", "stop": [5]}, "stop=", None),
        ({"prompt": "x", "seed": 1.5}, "seed", None),
        ({"chat": True}, "messages: expected a list", "messages"),
        ({"chat": True, "messages": ["x"]}, "expected a role and a content", "messages"),
        ({"chat": True, "messages": [{"role": "user"}]}, "content of text", "messages"),
        (
            {"chat": True, "messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "content of text", "messages",
        ),
        (
            {"chat": True, "messages": [{"role": "system", "content": "x"}]},
            "no system", "messages",
        ),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_requests(model, given, said, param):
    with pytest.raises(WrongRequestError, match=said) as found:
        read(model, **given)
    error = found.value.body()["error"]
    assert error["param"] == param and error["type"] == "invalid_request_error"
    assert found.value.status == (404 if param == "model" else 400)


@pytest.mark.refusal
@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff", b"[" * 100000], ids=len)
def test_wrong_bodies(model, body):
    with pytest.raises(WrongRequestError, match="the body is no JSON"):
        read_request(body, False, model, "tiny")


@pytest.mark.refusal
def test_what_requests_ask_for(model):
    (one,) = read(model, prompt="the cat", model="tiny", user="me", n=1, logit_bias={}).texts
    assert one.prompt == model.tokenize("the cat") and one.count == 16
    assert one.sampling.rule.draws  # a temperature of 1
    asked = read(model, prompt=[[5, 6], "the"], stream=True, stream_options={"include_usage": True},
                 temperature=0, max_tokens=3, stop="x", seed=None)  # fmt: skip
    assert asked.stream and asked.usage
    assert [text.prompt for text in asked.texts] == [[5, 6], model.tokenize("the")]
    assert {(text.count, text.stop, text.sampling.rule.draws) for text in asked.texts} == {
        (3, ("x",), False)
    }
    said = [{"role": "user", "content": [{"type": "text", "text": "the "}, {"text": "cat"}]}]
    (chat,) = read(model, chat=True, messages=said, max_completion_tokens=7).texts
    assert chat.prompt == model.chat("the cat") and chat.count == 7
    (chat,) = read(model, chat=True, messages=said).texts
    assert chat.count == 128 - len(chat.prompt)


@pytest.fixture
def worker(model):
    found = Worker(clprim.llm.Batch(model, 3))
    yield found
    found.close()
    found.join()


def heard(news, count=1):
    """What is told up to so many endings or errors, by text."""
    found = {}
    while count:
        text, piece, ending, error = news.get(timeout=60)
        before, _ = found.get(text, ("", ""))
        found[text] = before + piece, error
        count -= bool(error or ending)
    return found


def test_texts_of_a_worker(model, worker):
    """Some come while others go on."""
    rng = np.random.default_rng(0)
    prompts = [rng.integers(3, 259, n).tolist() for n in (3, 30, 9, 1, 17)]
    expected = ["".join(model.generate(p, tokens=20)) for p in prompts]
    news = queue.Queue()
    texts = [worker.add(model.generate(p, tokens=20), news.put) for p in prompts]
    texts.append(worker.add(model.generate([5], tokens=0), news.put))
    found = heard(news, 6)
    assert [found[text] for text in texts] == [*((text, "") for text in expected), ("", "")]


def test_a_text_that_nobody_waits_for(model, worker):
    news = queue.Queue()
    first = worker.add(model.generate([5], tokens=100), news.put)
    assert news.get(timeout=60).text is first
    worker.drop(first)
    second = worker.add(model.generate([6], tokens=5), news.put)
    assert second in heard(news)
    assert first.ending is None and len(first.tokens) < 100


def test_what_fails_is_told_and_others_may_come(model, worker, monkeypatch):
    news = queue.Queue()

    def failing():
        raise RuntimeError("out of luck")

    with monkeypatch.context() as patch:
        patch.setattr(worker._batch, "_begun", failing)
        text = worker.add(model.generate([5], tokens=5), news.put)
        assert heard(news)[text] == ("", "RuntimeError: out of luck")
    text = worker.add(model.generate([5], tokens=5), news.put)
    assert heard(news)[text] == ("".join(model.generate([5], tokens=5)), "")


def test_a_worker_that_is_closed(model, worker, monkeypatch):
    news = queue.Queue()
    text = worker.add(model.generate([5], tokens=100), news.put)
    worker.close()
    worker.join()
    assert heard(news)[text][1] == "the server ends"
    with pytest.raises(cp.ClprimError, match="the server ends"):
        worker.add(model.generate([5], tokens=100), news.put)
    other = Worker(clprim.llm.Batch(model, 1))
    monkeypatch.setattr(workers, "WAITING", -16)
    with pytest.raises(cp.ClprimError, match="wait already: try again"):
        other.add(model.generate([5], tokens=100), news.put)
    other.close()
    other.join()
