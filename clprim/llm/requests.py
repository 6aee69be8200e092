"""Requests in OpenAI's form: what they may say, and what a model is asked for then."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clprim.errors import ClprimError, quoted
from clprim.llm.model import Generation, Model

# Arguments that say how tokens are chosen, as `generate` has them; what is not OpenAI's is beyond.
_SAMPLING = {"temperature", "top_p", "presence_penalty", "frequency_penalty"}
_SAMPLING |= {"top_k", "min_p", "repetition_penalty"}
# What changes nothing that is computed here.
_IGNORED = {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}
# What is not there, with the values that ask for nothing.
_REFUSED: dict[str, tuple[Any, ...]] = {
    "n": (1,), "best_of": (1,), "logprobs": (False,), "top_logprobs": (), "echo": (False,),
    "suffix": (), "logit_bias": ({},), "tools": ([],), "tool_choice": ("none", "auto"),
    "functions": (), "function_call": ("none",), "response_format": ({"type": "text"},),
    "modalities": (["text"],), "audio": (), "parallel_tool_calls": (True, False),
    "reasoning_effort": ("none",), "prediction": (),
}  # fmt: skip
_KNOWN = {"model", "max_tokens", "stream", "stream_options", "stop", "seed", *_SAMPLING, *_REFUSED}
_KNOWN |= _IGNORED
# Tokens of a completion where nothing is said, as OpenAI's.
_TOKENS = 16
# Texts of one request.
_PROMPTS = 16


class WrongRequestError(Exception):
    """A request that is answered with an error.

    Attributes:
        status: Of HTTP.
        param: Which argument is wrong.
        code: A word for programs.
    """

    def __init__(
        self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    def body(self) -> dict[str, Any]:
        """Returns what OpenAI's clients read."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        found = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return {"error": found}


@dataclass(frozen=True)
class Asked:
    """What a request asks for: texts, and how to answer."""

    texts: list[Generation]
    stream: bool
    usage: bool  # Whether a stream ends with what it took


def read_request(body: bytes, chat: bool, model: Model, name: str) -> Asked:
    """Returns what a request asks for.

    Args:
        body: Of the request.
        chat: Whether it is of a chat.
        model: The model.
        name: Its name.

    Raises:
        WrongRequestError: It is wrong, or asks for what is not there.
    """
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WrongRequestError(f"the body is no JSON: {error}") from error
    if not isinstance(given, dict):
        raise WrongRequestError("the body is no JSON object")
    # What is null is as if it was not said.
    given = {key: value for key, value in given.items() if value is not None}
    _check(given, _KNOWN | ({"messages", "max_completion_tokens"} if chat else {"prompt"}))
    named = given.get("model", name)
    if named != name:
        raise WrongRequestError(
            f"model={quoted(named)} is not here: expected {name!r}", "model",
            status=404, code="model_not_found",
        )  # fmt: skip
    stream = _flag(given, "stream")
    options = given.get("stream_options", {})
    if not isinstance(options, dict) or (options and not stream):
        raise WrongRequestError(
            "stream_options: expected an object, and stream=true", "stream_options"
        )
    usage = _flag(options, "include_usage")
    prompts = [_chat(given, model)] if chat else _prompts(given, model)
    try:
        texts = [_generation(given, prompt, chat, model) for prompt in prompts]
    except ClprimError as error:
        raise WrongRequestError(str(error)) from error
    return Asked(texts, stream, usage)


def _check(given: Mapping[str, Any], known: set[str]) -> None:
    for key, value in given.items():
        if key not in known:
            raise WrongRequestError(f"there is no argument {quoted(key)}", key)
        # 0 equals False.
        fits = [type(value) is type(m) and value == m for m in _REFUSED.get(key, (value,))]
        if not any(fits):
            raise WrongRequestError(f"{key}={quoted(value)} is not supported", key)


def _flag(given: Mapping[str, Any], name: str) -> bool:
    found = given.get(name, False)
    if not isinstance(found, bool):
        raise WrongRequestError(f"{name}={quoted(found)}: expected true or false", name)
    return found


def _prompts(given: Mapping[str, Any], model: Model) -> list[list[int]]:
    """A text, tokens, or several of either."""
    prompt = given.get("prompt")
    several = isinstance(prompt, list) and prompt and not isinstance(prompt[0], int)
    found = prompt if several else [prompt]
    assert isinstance(found, list)
    if len(found) > _PROMPTS:
        raise WrongRequestError(f"{len(found)} prompts: expected at most {_PROMPTS}", "prompt")
    for each in found:
        numbers = isinstance(each, list) and all(type(n) is int for n in each)
        if not isinstance(each, str) and not numbers:
            raise WrongRequestError("prompt: expected a string, tokens, or lists of them", "prompt")
    return [model.tokenize(each) if isinstance(each, str) else each for each in found]


def _chat(given: Mapping[str, Any], model: Model) -> list[int]:
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        raise WrongRequestError("messages: expected a list of messages", "messages")
    try:
        return model.chat([_message(each) for each in messages])
    except ClprimError as error:
        raise WrongRequestError(str(error), "messages") from error


def _message(message: Any) -> dict[str, Any]:
    """A message whose parts are one text."""
    wrong = WrongRequestError(
        f"messages: {quoted(message)}: expected a role and a content of text", "messages"
    )
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise wrong
    content = message.get("content")
    if isinstance(content, list):
        parts = [each.get("text") if isinstance(each, dict) else None for each in content]
        if not all(isinstance(part, str) for part in parts):
            raise wrong
        content = "".join(map(str, parts))
    if not isinstance(content, str):
        raise wrong
    return {**message, "content": content}


def _generation(
    given: Mapping[str, Any], prompt: list[int], chat: bool, model: Model
) -> Generation:
    tokens = given.get("max_completion_tokens", given.get("max_tokens"))
    if tokens is None:
        tokens = max(1, model.context - len(prompt)) if chat else _TOKENS
    options = {key: given[key] for key in _SAMPLING if key in given}
    options.setdefault("temperature", 1.0)
    stop = given.get("stop", [])
    seed = given.get("seed", secrets.randbits(48))
    return model.generate(prompt, tokens, stop=stop, seed=seed, **options)
