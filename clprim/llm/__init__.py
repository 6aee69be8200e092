"""Language models: weights as their files have them, text in and text out."""

from clprim.llm.batch import Batch, Text
from clprim.llm.gguf import GGUF, read_gguf
from clprim.llm.model import Generation, Model, load

__all__ = ["GGUF", "Batch", "Generation", "Model", "Text", "load", "read_gguf"]
