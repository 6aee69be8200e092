"""``clprim serve model.gguf``: a language model behind OpenAI's addresses."""

from __future__ import annotations

import argparse
import socket
import sys
from pathlib import Path

from clprim.command.words import read_positive
from clprim.errors import DefinitionError
from clprim.runtime.progress import waiting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments to a parser."""
    add = parser.add_argument
    add("model", type=Path, help="a .gguf file, of a split one the first")
    add("--host", default="127.0.0.1", help="whom it answers: this machine alone (127.0.0.1)")
    add("--port", type=int, default=8080, help="where it answers (8080); 0 finds a free one")
    add("--name", help="the model's name (that of the file)")
    add("--texts", type=read_positive, default=16, help="texts at a time, up to 16; others wait")
    add("--cache", default="float16", help="dtype of keys and values: float16, int8 and others")
    add("--context", type=read_positive, help="tokens there is room for (4096, or the model's)")


def serve(args: argparse.Namespace) -> int:
    """Answers until it is interrupted."""
    from clprim import llm
    from clprim.llm.server import Server
    from clprim.llm.worker import Worker

    listening = _listening(args.host, args.port)
    with listening:
        with waiting("loading"):
            model = llm.load(args.model, context=args.context, cache=args.cache)
            batch = llm.Batch(model, args.texts)
            batch.prepare()
        name = args.name or args.model.stem
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        print(f"{name} answers at http://{shown}:{port}/v1; Ctrl-C ends it", file=sys.stderr)
        worker = Worker(batch)
        try:
            Server(worker, name).run(listening)
        finally:
            worker.close()
            worker.join()
    return 0


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise DefinitionError(f"serve: {host}:{port}: {error}") from error
