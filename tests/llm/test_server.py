"""`clprim serve` beside OpenAI's client."""

import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from language_models import TEMPLATE, TINY, scored, write

import clprim.llm
from clprim.command.cli import main
from clprim.llm.worker import Worker

openai = pytest.importorskip("openai")
pytest.importorskip("uvicorn")
pytest.importorskip("starlette")


@pytest.fixture
def served(device, tmp_path):
    """A model, what continues its texts, and a client of what answers for it."""
    from clprim.llm.server import Server

    more = [("tokenizer.chat_template", TEMPLATE)]
    write(tmp_path / "tiny.gguf", "llama", scored(TINY), more=more)
    model = clprim.llm.load(tmp_path / "tiny.gguf")
    worker = Worker(clprim.llm.Batch(model))
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: Server(worker, "tiny").run(listening), daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    with openai.OpenAI(base_url=address, api_key="none", max_retries=0, timeout=60) as client:
        yield model, worker, client
    worker.close()
    worker.join()


GREEDY = {"model": "tiny", "temperature": 0}


def test_completions(served):
    model, _, client = served
    assert [each.id for each in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "clprim"
    found = client.completions.create(prompt="the cat", max_tokens=9, **GREEDY)
    text = "".join(model.generate("the cat", tokens=9))
    assert found.choices[0].text == text and found.choices[0].finish_reason == "length"
    prompt = len(model.tokenize("the cat"))
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (prompt, 9)
    assert found.usage.total_tokens == prompt + 9
    found = client.completions.create(prompt="the cat", max_tokens=9, stop=[text[3:5]], **GREEDY)
    assert found.choices[0].text == text[: text.index(text[3:5])]
    assert found.choices[0].finish_reason == "stop"
    two = client.completions.create(prompt=["the cat", "cat"], max_tokens=9, **GREEDY)
    other = "".join(model.generate("cat", tokens=9))
    assert [(each.index, each.text) for each in two.choices] == [(0, text), (1, other)]
    drawn = {"model": "tiny", "prompt": "the", "max_tokens": 20, "temperature": 1.5, "seed": 4}
    found = client.completions.create(**drawn).choices[0].text
    assert found == "".join(model.generate("the", tokens=20, temperature=1.5, seed=4))
    assert found == client.completions.create(**drawn).choices[0].text


def test_chats(served):
    model, _, client = served
    said = [{"role": "user", "content": "the cat"}]
    text = "".join(model.generate(model.chat("the cat"), tokens=9))
    found = client.chat.completions.create(messages=said, max_tokens=9, **GREEDY)
    assert found.choices[0].message.content == text
    assert found.choices[0].message.role == "assistant"
    options = {"stream": True, "stream_options": {"include_usage": True}}
    parts = [*client.chat.completions.create(messages=said, max_tokens=9, **GREEDY, **options)]
    assert parts[0].choices[0].delta.role == "assistant"
    assert "".join(each.choices[0].delta.content or "" for each in parts[:-1]) == text
    assert [each.choices[0].finish_reason for each in parts[:-1]] == [None] * (len(parts) - 2) + [
        "length"
    ]
    assert parts[-1].choices == [] and parts[-1].usage.completion_tokens == 9
    assert len({each.id for each in parts}) == 1


def test_sixteen_streams_at_once(served):
    model, _, client = served
    prompts = [f"the cat {'cat ' * n}" for n in range(16)]
    expected = ["".join(model.generate(p, tokens=12)) for p in prompts]
    found = [""] * 16

    def read(n):
        for each in client.completions.create(
            prompt=prompts[n], max_tokens=12, stream=True, **GREEDY
        ):
            found[n] += each.choices[0].text

    threads = [threading.Thread(target=read, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def test_a_client_that_hangs_up_ends_its_text(served):
    _, worker, client = served
    stream = client.completions.create(prompt="the", max_tokens=100, stream=True, **GREEDY)
    next(stream)
    assert worker._batch.busy
    stream.close()
    with pytest.raises(openai.APITimeoutError):
        client.completions.create(prompt="the", max_tokens=120, timeout=1e-3, **GREEDY)
    for _ in range(600):
        if not (worker._batch.busy or worker._told):
            break
        time.sleep(0.01)
    assert not worker._told
    # The stream was not read to its end.
    assert client.completions.create(prompt="the", max_tokens=1, **GREEDY).choices


@pytest.mark.refusal
def test_wrong_requests_get_the_form_of_errors(served, monkeypatch):
    _, worker, client = served
    with pytest.raises(openai.BadRequestError, match="n=3 is not supported") as found:
        client.completions.create(prompt="x", n=3, **GREEDY)
    assert found.value.param == "n" and found.value.type == "invalid_request_error"
    with pytest.raises(openai.NotFoundError, match="model='other' is not here") as found:
        client.completions.create(prompt="x", model="other")
    assert found.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other/one")
    with pytest.raises(openai.NotFoundError, match="POST /v1/embeddings"):
        client.embeddings.create(model="tiny", input="x")
    with pytest.raises(openai.APIStatusError) as found:
        client.get("/completions", cast_to=object)
    assert found.value.status_code == 405
    with pytest.raises(openai.APIStatusError, match="more than 4194304 bytes") as found:
        client.completions.create(prompt="x" * (5 << 20), **GREEDY)
    assert found.value.status_code == 413
    with pytest.raises(openai.APIStatusError, match="expected application/json") as found:
        client.post("/completions", cast_to=object, content=b"x",
                    options={"headers": {"content-type": "text/plain"}})  # fmt: skip
    assert found.value.status_code == 415

    def failing():
        raise RuntimeError("out of luck")

    with monkeypatch.context() as patch:
        patch.setattr(worker._batch, "_begun", failing)
        with pytest.raises(openai.InternalServerError, match="out of luck"):
            client.completions.create(prompt="x", **GREEDY)
        stream = client.completions.create(prompt="x", stream=True, **GREEDY)
        with pytest.raises(openai.APIError, match="out of luck"):
            list(stream)
    worker.close()
    with pytest.raises(openai.InternalServerError, match="the server ends"):
        client.completions.create(prompt="x", **GREEDY)


@pytest.mark.alone
def test_command(device, tmp_path):
    """It says where it answers, and an interrupt ends it while a stream goes on."""
    path = tmp_path / "tiny.gguf"
    write(path, "llama", scored(TINY))
    command = [sys.executable, "-m", "clprim", "serve", str(path), "--port", "0"]
    command += ["--device", str(device.index), "--texts", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        assert line.startswith("tiny answers at http://127.0.0.1:")
        address = line.split()[3].rstrip(";")
        with openai.OpenAI(base_url=address, api_key="none", max_retries=0, timeout=60) as client:
            stream = client.completions.create(prompt="the", max_tokens=110, stream=True, **GREEDY)
            next(stream)
            process.send_signal(signal.SIGINT)
            with pytest.raises(openai.APIError):
                list(stream)
        assert process.wait(30) in (0, 130)
        assert process.stderr.read() == ""


@pytest.mark.refusal
def test_refusals_of_the_command(device, tmp_path, capsys, monkeypatch):
    path = str(tmp_path / "none.gguf")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", path, "--port", port]) == 2
    assert f"127.0.0.1:{port}" in capsys.readouterr().err
    assert main(["serve", path, "--port", "0"]) == 2
    assert "none.gguf" in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "clprim.llm.server", raising=False)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    assert main(["serve", path]) == 2
    assert "pip install clprim[serve]" in capsys.readouterr().err
