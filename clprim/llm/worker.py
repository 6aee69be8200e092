"""A thread that continues the texts of a batch for those who wait for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from clprim.errors import DeviceError
from clprim.llm.batch import SIZES, Batch, Text
from clprim.llm.model import Generation

#: Texts that may wait for a place.
WAITING = 256


class News(NamedTuple):
    """What somebody who waits for a text is told."""

    text: Text
    piece: str
    ending: str | None  # As the text's when it was told
    error: str = ""


class Worker:
    """Runs a batch in a thread of its own.

    Args:
        batch: The batch, which is the thread's from then on.

    Attributes:
        model: Its model.
    """

    def __init__(self, batch: Batch) -> None:
        self.model, self._batch = batch.model, batch
        # What the thread is asked for: texts to add, with whom to tell, and texts to drop.
        self._new: list[tuple[Text, Callable[[News], None]]] = []
        self._dropped: list[Text] = []
        self._told: dict[Text, Callable[[News], None]] = {}
        self._changed, self._closed = threading.Condition(), False
        self._thread = threading.Thread(target=self._run, name="clprim-serve", daemon=True)
        self._thread.start()

    def add(self, asked: Generation, tell: Callable[[News], None]) -> Text:
        """Lets a text wait for its place.

        Args:
            asked: What `Model.generate` returned.
            tell: Called in the worker's thread with what is new, the last time with an ending or an
                error.

        Raises:
            DeviceError: Too many texts wait, or the worker was closed.
        """
        text = Text(asked)
        with self._changed:
            if self._closed:
                raise DeviceError("the server ends")
            if len(self._told) + len(self._new) >= WAITING + SIZES[-1]:
                raise DeviceError(f"{WAITING} texts wait already: try again later")
            self._new.append((text, tell))
            self._changed.notify()
        return text

    def drop(self, text: Text) -> None:
        """Ends a text that nobody waits for any more."""
        with self._changed:
            self._dropped.append(text)
            self._changed.notify()

    def close(self) -> None:
        """Ends all texts, whose waiters are told, and the thread behind its step."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def join(self) -> None:
        """Waits for the thread, which `close` ends."""
        self._thread.join()

    def _run(self) -> None:
        while self._changes():
            try:
                news = self._batch.step()
            except Exception as error:  # a driver's too: those who wait are told, others may come
                self._batch.clear()
                self._fail(f"{type(error).__name__}: {error}")
                continue
            for text, piece in news:
                self._tell(News(text, piece, text.ending))
        self._fail("the server ends")

    def _changes(self) -> bool:
        """Takes in what was asked for, and waits where there is nothing to do; False at the end."""
        with self._changed:
            while not (self._closed or self._new or self._dropped or self._batch.busy):
                self._changed.wait()
            new, self._new, dropped, self._dropped = self._new, [], self._dropped, []
            for text, tell in new:
                self._told[text] = tell
        for text, _ in new:
            self._batch.add(text)
            if text.ending is not None:
                self._tell(News(text, "", text.ending))
        for text in dropped:
            self._batch.drop(text)
            self._told.pop(text, None)
        return not self._closed

    def _tell(self, news: News) -> None:
        self._told[news.text](news)
        if news.ending is not None:
            del self._told[news.text]

    def _fail(self, why: str) -> None:
        for text, tell in self._told.items():
            tell(News(text, "", None, why))
        self._told.clear()
