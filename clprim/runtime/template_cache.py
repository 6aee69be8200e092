"""Keeps compiled templates on disk, beside the programs.

Printing a kernel then needs no Jinja compiler, which takes longer than everything else in a
process's first call.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

from clprim.runtime import disk_cache

if TYPE_CHECKING:
    import jinja2
    from jinja2.bccache import Bucket

__all__ = ["template_cache"]


@lru_cache(maxsize=1)
def template_cache() -> jinja2.BytecodeCache:
    """Returns Jinja's cache of templates, kept in clprim's cache folder."""
    import jinja2

    class TemplateCache(jinja2.BytecodeCache):
        """Entries are told apart by the template's text; Jinja checks its own version."""

        def load_bytecode(self, bucket: Bucket) -> None:
            entry = disk_cache.load(_key(bucket))
            if entry is not None:
                bucket.bytecode_from_string(entry)

        def dump_bytecode(self, bucket: Bucket) -> None:
            disk_cache.store(_key(bucket), bucket.bytecode_to_string())

    return TemplateCache()


def _key(bucket: Bucket) -> str:
    return hashlib.sha256(f"template:{bucket.key}:{bucket.checksum}".encode()).hexdigest()
