"""A model behind OpenAI's addresses: completions, chats, streams of both."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

from clprim.errors import DeviceError, MissingPackageError
from clprim.llm.batch import Text
from clprim.llm.requests import Asked, WrongRequestError, read_request
from clprim.llm.worker import News, Worker

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route
except ImportError as error:
    raise MissingPackageError(
        "clprim serve needs the packages starlette and uvicorn: pip install clprim[serve]"
    ) from error

#: Bytes of a request.
LARGEST = 4 << 20


class Server:
    """Answers requests.

    Args:
        worker: What continues texts.
        name: The model's.

    Attributes:
        app: What an ASGI server runs.
    """

    def __init__(self, worker: Worker, name: str) -> None:
        self._worker, self._name, self._since = worker, name, int(time.time())
        self.app = Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/v1/models/{name:path}", self._model),
                Route("/v1/completions", self._completions, methods=["POST"]),
                Route("/v1/chat/completions", self._chats, methods=["POST"]),
            ],
            exception_handlers={
                WrongRequestError: _refused,
                HTTPException: _refused,
                ClientDisconnect: _refused,
                DeviceError: _refused,
                Exception: _refused,
            },
        )

    def run(self, listening: socket.socket) -> None:
        """Answers those who come to a socket until the process is interrupted."""
        config = uvicorn.Config(
            self.app, log_level="warning", lifespan="off", timeout_graceful_shutdown=3
        )
        server = uvicorn.Server(config)
        leave = server.handle_exit

        def handle_exit(sig: int, frame: Any) -> None:
            """Ends texts first, for whose streams it would wait."""
            self._worker.close()
            leave(sig, frame)

        vars(server).update(handle_exit=handle_exit)
        server.run(sockets=[listening])

    def _about(self) -> dict[str, Any]:
        about = {"object": "model", "created": self._since, "owned_by": "clprim"}
        return {"id": self._name, **about}

    async def _models(self, request: Request) -> Response:
        del request
        return JSONResponse({"object": "list", "data": [self._about()]})

    async def _model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name != self._name:
            raise WrongRequestError(
                f"model {name!r} is not here: expected {self._name!r}", "model",
                status=404, code="model_not_found",
            )  # fmt: skip
        return JSONResponse(self._about())

    async def _completions(self, request: Request) -> Response:
        return await self._answer(request, chat=False)

    async def _chats(self, request: Request) -> Response:
        return await self._answer(request, chat=True)

    async def _answer(self, request: Request, chat: bool) -> Response:
        body = await _body(request)
        # Long texts take a while to become tokens.
        asked = await run_in_threadpool(read_request, body, chat, self._worker.model, self._name)
        answer = Answer(self._worker, asked, chat, self._name)
        if asked.stream:
            return StreamingResponse(
                answer.stream(), media_type="text/event-stream",
                headers={"Cache-Control": "no-cache"},
            )  # fmt: skip
        whole = asyncio.ensure_future(answer.whole())
        gone = asyncio.ensure_future(_gone(request))
        await asyncio.wait((whole, gone), return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not whole.done():
            whole.cancel()
            await asyncio.wait((whole,))
            raise ClientDisconnect
        return JSONResponse(whole.result())


class Answer:
    """Texts of one request, and what is said of them.

    Args:
        worker: What continues them.
        asked: What they are.
        chat: Whether they are a chat's.
        name: The model's.
    """

    def __init__(self, worker: Worker, asked: Asked, chat: bool, name: str) -> None:
        loop, self._news = asyncio.get_running_loop(), asyncio.Queue[News]()
        self._worker, self._asked, self._chat = worker, asked, chat

        def tell(news: News) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._news.put_nowait, news)

        self._texts: list[Text] = []
        try:
            for each in asked.texts:
                self._texts.append(worker.add(each, tell))
        except DeviceError:
            self._drop()
            raise
        number = uuid.uuid4().hex
        self._head = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{number}",
            "object": "chat.completion" if chat else "text_completion",
            "created": int(time.time()),
            "model": name,
        }

    def _drop(self) -> None:
        for text in self._texts:
            self._worker.drop(text)

    async def _pieces(self) -> AsyncIterator[tuple[int, str, str | None]]:
        """Yields which text reads on and how, and whether it ends; nothing goes on behind it."""
        left = len(self._texts)
        try:
            while left:
                text, piece, ending, error = await self._news.get()
                if error:
                    raise WrongRequestError(error, status=500, code="device_error")
                left -= ending is not None
                if piece or ending is not None:
                    yield self._texts.index(text), piece, ending
        finally:
            if left:
                self._drop()

    def _usage(self) -> dict[str, int]:
        prompt = sum(text.prompt_tokens for text in self._texts)
        added = sum(len(text.tokens) for text in self._texts)
        return {
            "prompt_tokens": prompt, "completion_tokens": added, "total_tokens": prompt + added
        }  # fmt: skip

    async def whole(self) -> dict[str, Any]:
        """Returns all of it."""
        texts = [""] * len(self._texts)
        async for number, piece, _ in self._pieces():
            texts[number] += piece
        choices = []
        for number, (text, found) in enumerate(zip(self._texts, texts, strict=True)):
            said: dict[str, Any] = {"text": found}
            if self._chat:
                said = {"message": {"role": "assistant", "content": found, "refusal": None}}
            choices.append(_choice(number, said, text.ending))
        return {**self._head, "choices": choices, "usage": self._usage()}

    async def stream(self) -> AsyncIterator[str]:
        """Yields events of what is new, and at last that there is nothing more."""
        head: dict[str, Any] = (
            {**self._head, "object": "chat.completion.chunk"} if self._chat else self._head
        )
        if self._asked.usage:
            head["usage"] = None

        def event(choices: Sequence[Any], **more: Any) -> str:
            return f"data: {json.dumps({**head, 'choices': choices, **more})}\n\n"

        try:
            if self._chat:
                yield event([_choice(0, {"delta": {"role": "assistant", "content": ""}}, None)])
            async for number, piece, ending in self._pieces():
                if not self._chat:
                    yield event([_choice(number, {"text": piece}, ending)])
                    continue
                if piece:
                    yield event([_choice(number, {"delta": {"content": piece}}, None)])
                if ending:
                    yield event([_choice(number, {"delta": {}}, ending)])
            if self._asked.usage:
                yield event([], usage=self._usage())
        except WrongRequestError as error:
            yield f"data: {json.dumps(error.body())}\n\n"
            return
        yield "data: [DONE]\n\n"


def _choice(number: int, said: dict[str, Any], ending: str | None) -> dict[str, Any]:
    return {"index": number, **said, "logprobs": None, "finish_reason": ending}


async def _body(request: Request) -> bytes:
    """All of a request's body, as long as it is JSON and not too long."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # What a browser sends to other sites without asking them has another type.
    if kind != "application/json":
        raise WrongRequestError(f"content-type {kind!r}: expected application/json", status=415)
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > LARGEST:
            raise WrongRequestError(f"the body has more than {LARGEST} bytes", status=413)
    return bytes(found)


async def _gone(request: Request) -> None:
    """Waits until a client hangs up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _refused(request: Request, error: Exception) -> Response:
    """An error in OpenAI's form."""
    if isinstance(error, HTTPException):
        said = f"{request.method} {request.url.path}: {error.detail}"
        error = WrongRequestError(said, status=error.status_code)
    elif isinstance(error, DeviceError):
        error = WrongRequestError(str(error), status=503, code="overloaded")
    elif not isinstance(error, WrongRequestError):
        error = WrongRequestError(f"{type(error).__name__}: {error}", status=500)
    return JSONResponse(error.body(), error.status)
