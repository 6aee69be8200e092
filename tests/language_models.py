"""Tiny models with random weights and small vocabularies, written as GGUF files."""

import random

import numpy as np
import pytest

from clprim.llm.tokenizer import LETTERS

G = "tokenizer.ggml."
SPACE = "\u2581"

WIDTH, HEADS, KEYS, SIZE, INNER, CONTEXT = 64, 4, 2, 16, 96, 128
COMMON = {
    "context_length": CONTEXT, "embedding_length": WIDTH, "feed_forward_length": INNER,
    "attention.head_count": HEADS, "attention.head_count_kv": KEYS,
    "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 10000.0, "block_count": 3,
    "vocab_size": 274,
}  # fmt: skip
HEAD_SIZE = {"attention.key_length": SIZE, "attention.value_length": SIZE}
GEMMA = {**HEAD_SIZE, "attention.sliding_window": 8}
# What an architecture's file says besides.
ARCHITECTURES = {
    "llama": {"rope.dimension_count": SIZE},
    "qwen2": {},
    "qwen2moe": {
        "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32,
        "expert_shared_feed_forward_length": 48,
    },
    "qwen3": HEAD_SIZE,
    "qwen3moe": {
        **HEAD_SIZE, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32,
    },
    "gemma2": {
        **GEMMA, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "block_count": 4,
    },
    "gemma3": {**GEMMA, "rope.freq_base": 1000000.0, "block_count": 7},
    "phi3": {"rope.dimension_count": SIZE, "attention.sliding_window": 24},
}  # fmt: skip


def tensors(name, said, rng):
    """The weights by name, as NumPy has their shapes."""
    said = {**COMMON, **said}
    found = {}

    def put(key, *shape, around=0.0, spread=None):
        spread = shape[-1] ** -0.5 if spread is None else spread
        found[key] = (around + spread * rng.normal(size=shape)).astype(np.float32)

    put("token_embd.weight", said["vocab_size"], WIDTH, spread=1)
    put("output_norm.weight", WIDTH, around=1, spread=0.1)
    if not name.startswith("gemma"):
        put("output.weight", said["vocab_size"], WIDTH)
    norms = ["attn_norm", "ffn_norm"]
    norms += ["post_attention_norm", "post_ffw_norm"] if name.startswith("gemma") else []
    for layer in range(said["block_count"]):
        at = f"blk.{layer}."
        for norm in norms:
            put(f"{at}{norm}.weight", WIDTH, around=1, spread=0.1)
        if name in ("qwen3", "qwen3moe", "gemma3"):
            put(f"{at}attn_q_norm.weight", SIZE, around=1, spread=0.1)
            put(f"{at}attn_k_norm.weight", SIZE, around=1, spread=0.1)
        if name == "phi3":
            put(f"{at}attn_qkv.weight", (HEADS + 2 * KEYS) * SIZE, WIDTH)
        else:
            for part, heads in (("q", HEADS), ("k", KEYS), ("v", KEYS)):
                put(f"{at}attn_{part}.weight", heads * SIZE, WIDTH)
                if name.startswith("qwen2"):
                    put(f"{at}attn_{part}.bias", heads * SIZE, spread=0.5)
        put(f"{at}attn_output.weight", WIDTH, HEADS * SIZE)
        if "expert_count" in said:
            experts, inner = said["expert_count"], said["expert_feed_forward_length"]
            put(f"{at}ffn_gate_inp.weight", experts, WIDTH)
            put(f"{at}ffn_gate_exps.weight", experts, inner, WIDTH)
            put(f"{at}ffn_up_exps.weight", experts, inner, WIDTH)
            put(f"{at}ffn_down_exps.weight", experts, WIDTH, inner)
            inner = said.get("expert_shared_feed_forward_length")
            if inner:
                put(f"{at}ffn_gate_inp_shexp.weight", WIDTH)
                put(f"{at}ffn_gate_shexp.weight", inner, WIDTH)
                put(f"{at}ffn_up_shexp.weight", inner, WIDTH)
                put(f"{at}ffn_down_shexp.weight", WIDTH, inner)
            continue
        if name != "phi3":
            put(f"{at}ffn_gate.weight", INNER, WIDTH)
        put(f"{at}ffn_up.weight", INNER * (2 if name == "phi3" else 1), WIDTH)
        put(f"{at}ffn_down.weight", WIDTH, INNER)
    return found


def write(path, name, tokenizer, *, said=None, weights=None, more=(), formats=None):
    """Writes a file and returns its weights, dequantised."""
    gguf = pytest.importorskip("gguf")
    known = (
        ARCHITECTURES.get(name, {}) | {"vocab_size": len(tokenizer[f"{G}tokens"])} | (said or {})
    )
    weights = tensors(name, known, np.random.default_rng(7)) if weights is None else weights
    writer = gguf.GGUFWriter(path, name)
    for key, value in {**COMMON, **known}.items():
        add = writer.add_float32 if isinstance(value, float) else writer.add_uint32
        if isinstance(value, str):
            add = writer.add_string
        add(f"{name}.{key}", value)
    for key, value in tokenizer.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_uint32(key, value)
    for key, value in more:
        writer.add_string(key, value)
    found = {}
    for key, value in weights.items():
        kind = (formats or {}).get(key.split(".")[-2])
        if kind is None:
            writer.add_tensor(key, value)
            found[key] = value
            continue
        kind = getattr(gguf.GGMLQuantizationType, kind)
        raw = gguf.quants.quantize(value, kind)
        writer.add_tensor(key, raw, raw_dtype=kind)
        found[key] = gguf.quants.dequantize(raw, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return found


TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{{ m.role }}: {{ m.content }}</s>{% endfor %}"
)


# --- vocabularies ---------------------------------------------------------------------------------


def scored(pieces, types=None, **more):
    """Metadata of a vocabulary whose first pieces join first, behind special ones and all bytes."""
    special = ["<unk>", "<s>", "</s>"]
    codes = [f"<0x{n:02X}>" for n in range(256)]
    tokens = [*special, *codes, *pieces]
    kinds = [2, 3, 3, *[6] * 256, *(types or [1] * len(pieces))]
    scores = [*[0.0] * 259, *(-float(n) for n in range(len(pieces)))]
    found = {"model": "llama", "tokens": tokens, "scores": scores, "token_type": kinds}
    found |= {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
    found |= {"padding_token_id": 0} | more
    return {G + name: value for name, value in found.items()}


TINY = ["th", "the", f"{SPACE}the", "at", "cat", f"{SPACE}c", *"theca", SPACE, "é", "日", "本"]


def pairs(count=300, pre="gpt-2", seed=0, **more):
    """Metadata of merges drawn by lot."""
    draw = random.Random(seed)
    pieces, merges = list(LETTERS), []
    letters = [LETTERS[ord(c)] for c in " theca'1.\n"]
    while len(merges) < count:
        a, b = (draw.choice(letters + pieces[256:]) for _ in range(2))
        if len(a + b) < 7 and a + b not in pieces:
            merges.append(f"{a} {b}")
            pieces.append(a + b)
    tokens = [*pieces, "<|endoftext|>", "<|user|>"]
    found = {"model": "gpt2", "pre": pre, "tokens": tokens, "merges": merges}
    found |= {"token_type": [1] * len(pieces) + [3, 4], "bos_token_id": len(pieces)} | more
    return {G + name: value for name, value in found.items()}
