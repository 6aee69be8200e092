"""Chats as one text, by the template that a file has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from clprim.errors import DefinitionError, quoted
from clprim.llm.tokenizer import Tokenizer


def chat_text(messages: Sequence[Mapping[str, Any]], tokenizer: Tokenizer) -> str:
    """Returns the text of a chat, up to where an answer begins.

    Args:
        messages: Each with ``role`` and ``content``.
        tokenizer: Of the model.

    Raises:
        DefinitionError: The file has no template, or it refuses these messages.
    """
    template = tokenizer.metadata.get("tokenizer.chat_template")
    if not isinstance(template, str):
        raise DefinitionError("chat: the file has no tokenizer.chat_template")
    for message in messages:
        if not isinstance(message, Mapping) or not {"role", "content"} <= message.keys():
            raise DefinitionError(f"chat: {quoted(message)}: expected a dict of role and content")

    def refuse(why: str) -> None:
        raise TemplateError(why)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    names = {
        "raise_exception": refuse,
        "strftime_now": lambda form: datetime.now().strftime(form),
        "messages": messages,
        "add_generation_prompt": True,
        "tools": None,
        **{f"{n}_token": tokenizer.special_text(n) for n in ("bos", "eos", "unknown", "padding")},
    }
    try:
        return environment.from_string(template).render(names)
    except TemplateError as error:
        raise DefinitionError(f"chat: the file's template says: {error}") from error
