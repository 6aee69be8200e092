"""Language models: weights as their files have them."""

from clprim.llm.gguf import GGUF, read_gguf

__all__ = ["GGUF", "read_gguf"]
