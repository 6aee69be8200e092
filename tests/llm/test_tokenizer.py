"""Tokenizers beside SentencePiece, tokenizers and regex, where these are installed."""

import random
import struct
from pathlib import Path

import numpy as np
import pytest
from language_models import SPACE, TINY, G, pairs, scored

import clprim as cp
from clprim.llm.pretokens import splitter
from clprim.llm.tokenizer import LETTERS, Stream, tokenizer_of

TEXTS = (
    "", " ", "a", "the cat", "  the\tcat  ", "theathe", "caféé naïve", "日本語 text 😀!",
    "a\n\n\nb \r\n c", "\x00\x1c\x85 \u2028 ",
    "I'll we'RE don't 'S x's", "1234567 89 ½ Ⅷ ٣٤", "x =  y+1;\n\tif (a!=b) {}",
    "e\u0301 n\u0303", "ﬁ ſ K", "<s>the</s>",
)  # fmt: skip


def random_texts(count, seed=0):
    draw = random.Random(seed)
    kinds = "abcthe '' \n\r\t.,!?-_0123456789éßДж日本½Ⅷ٣😀\u0301\u00a0\u2028\u3000\x85\x1c"
    return ["".join(draw.choices(kinds, k=draw.randint(0, 30))) for _ in range(count)]


def ids_of(tokenizer, *pieces):
    return [tokenizer.ids[piece] for piece in pieces]


def test_pieces_join_by_score_and_what_is_unknown_is_bytes():
    t = tokenizer_of(scored(TINY))
    assert t.encode("the cat") == [1, *ids_of(t, f"{SPACE}the", SPACE, "cat")]
    assert t.encode("x", bos=False) == ids_of(t, SPACE, "<0x78>")
    assert t.encode("x<s>the", special=True) == [
        1, *ids_of(t, SPACE, "<0x78>", "<s>", f"{SPACE}the")
    ]  # fmt: skip
    assert 1 not in t.encode("<s>", bos=False)
    assert tokenizer_of(scored(TINY, add_space_prefix=False)).encode("the") == [1, t.ids["the"]]
    assert tokenizer_of(scored(TINY, add_bos_token=False)).encode("") == []
    assert t.ends == {2}


@pytest.mark.parametrize("prefix", [False, True])
def test_texts_come_back(prefix):
    t = tokenizer_of(
        scored([*TINY, "\n\n", "  "], [1] * len(TINY) + [4, 4], add_space_prefix=prefix)
    )
    for text in (*TEXTS, *random_texts(50)):
        assert t.decode(t.encode(text)) == text
    assert ids_of(t, "\n\n")[0] in t.encode("a\n\nb")


def test_characters_come_whole():
    t = tokenizer_of(scored(TINY, add_space_prefix=False))
    stream, text = Stream(t), "a日😀é!"
    pieces = [stream.add(token) for token in t.encode(text)]
    assert "".join(pieces) + stream.end() == text
    assert all("\ufffd" not in piece for piece in pieces)
    stream.add(t.ids["<0xF0>"])
    assert stream.end() == "\ufffd"


def wire(number, value):
    """A field of a protocol buffer."""
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    varint = lambda n: bytes([n & 127 | 128]) + varint(n >> 7) if n > 127 else bytes([n])  # noqa: E731
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece_of(metadata):
    """SentencePiece's own reading of a vocabulary."""
    package = pytest.importorskip("sentencepiece")
    parts = [metadata[G + name] for name in ("tokens", "scores", "token_type")]
    fields = []
    for piece, score, kind in zip(*parts, strict=True):
        # What users define has spaces here, and SentencePiece's own sign for them there.
        text = piece.replace(" ", SPACE) if kind == 4 else piece
        fields.append(wire(1, wire(1, text.encode()) + wire(2, float(score)) + wire(3, int(kind))))
    ids = {name: int(metadata[f"{G}{name}_token_id"]) for name in ("unknown", "bos", "eos")}
    trainer = wire(3, 2) + wire(35, 1) + wire(40, ids["unknown"]) + wire(41, ids["bos"])
    trainer += wire(42, ids["eos"]) + wire(45, parts[0][ids["unknown"]].encode())
    trainer += wire(46, parts[0][ids["bos"]].encode()) + wire(47, parts[0][ids["eos"]].encode())
    prefix = int(bool(metadata.get(f"{G}add_space_prefix", True)))
    normalizer = wire(1, b"identity") + wire(3, prefix) + wire(4, 0) + wire(5, 1)
    raw = b"".join([*fields, wire(2, trainer), wire(3, normalizer)])
    return package.SentencePieceProcessor(model_proto=raw)


@pytest.mark.parametrize("prefix", [False, True])
def test_scored_pieces_beside_sentencepiece(prefix):
    draw = random.Random(1)
    pieces = [
        "".join(draw.choices("the ca".replace(" ", SPACE), k=draw.randint(2, 4))) for _ in range(60)
    ]
    pieces = [*dict.fromkeys(pieces), *"theca", SPACE, "\n\n", "  "]
    pieces = [piece for piece in pieces if piece != 2 * SPACE]
    kinds = [1] * (len(pieces) - 2) + [4, 4]
    metadata = scored(pieces, kinds, add_space_prefix=prefix)
    theirs, ours = sentencepiece_of(metadata), tokenizer_of(metadata)
    texts = ["".join(draw.choices("theca  \nxé", k=draw.randint(0, 40))) for _ in range(300)]
    for text in (*TEXTS[:-1], *texts):
        if text:  # of no text SentencePiece makes no space either, llama.cpp's way makes one
            assert ours.encode(text, bos=False) == theirs.encode(text), text


def test_gemmas_vocabulary_beside_sentencepiece(gemma):
    from clprim.llm import read_gguf

    metadata = read_gguf(gemma).metadata
    theirs, ours = sentencepiece_of(metadata), tokenizer_of(metadata)
    for text in (*TEXTS[:-1], *random_texts(200), Path(__file__).read_text()):
        assert ours.encode(text, bos=False) == theirs.encode(text), text
        assert ours.decode(ours.encode(text)) == text
    assert ours.encode("The capital of France is") == [2, 818, 5279, 529, 7001, 563]
    assert ours.pieces[106] == "<end_of_turn>" and ours.ends == {1, 106}


# --- byte pairs ----------------------------------------------------------------------------------

_ENDINGS = r"'s|'t|'re|'ve|'m|'ll|'d"
_GPT2 = rf"{_ENDINGS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
_LATER = (
    rf"(?i:{_ENDINGS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}DIGITS| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
EXPRESSIONS = {
    "gpt-2": [_GPT2],
    "smollm": [r"\p{N}", _GPT2],
    "llama-bpe": [_LATER.replace("DIGITS", "{1,3}")],
    "qwen2": [_LATER.replace("DIGITS", "")],
}


def test_words():
    split = splitter("gpt-2").split
    assert split("I'll go, 12 é日½!  x\n") == [
        "I",
        "'ll",
        " go",
        ",",
        " 12",
        " é日",
        "½",
        "!",
        " ",
        " x",
        "\n",
    ]
    assert splitter("llama-bpe").split("12345 don'T") == ["123", "45", " don", "'T"]
    assert splitter("qwen2").split("12 a\u00a0b") == ["1", "2", " a", "\u00a0b"]
    assert splitter("smollm").split("ab  12") == ["ab", "  ", "1", "2"]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_words_beside_regex(name):
    regex = pytest.importorskip("regex")
    split = splitter(name).split
    texts = [t for t in (*TEXTS, *random_texts(2000)) if "ſ" not in t]
    for text in texts:  # ſ is an s where case does not matter, to regex
        expected = [text]
        for expression in EXPRESSIONS[name]:
            parts = []
            for part in expected:
                at = 0
                for match in regex.finditer(expression, part):
                    parts += [part[at : match.start()], match[0]]
                    at = match.end()
                parts.append(part[at:])
            expected = [part for part in parts if part]
        assert split(text) == expected, text


@pytest.mark.parametrize("pre", EXPRESSIONS)
def test_byte_pairs_beside_tokenizers(pre):
    package = pytest.importorskip("tokenizers")
    metadata = pairs(pre=pre)
    ours = tokenizer_of(metadata)
    merges = [tuple(each.split(" ")) for each in metadata[f"{G}merges"]]
    vocabulary = {piece: n for n, piece in enumerate(metadata[f"{G}tokens"])}
    model = package.models.BPE(vocabulary, merges, ignore_merges=pre == "llama-bpe")
    theirs = package.Tokenizer(model)
    steps = [
        package.pre_tokenizers.Split(package.Regex(each), "isolated") for each in EXPRESSIONS[pre]
    ]
    steps.append(package.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    theirs.pre_tokenizer = package.pre_tokenizers.Sequence(steps)
    for text in (*TEXTS, *random_texts(300, 3)):
        if "ſ" not in text:
            assert ours.encode(text) == theirs.encode(text).ids, text
        assert ours.decode(ours.encode(text)) == text
    assert ours.encode("a<|user|>b", bos=True)[:3] == [len(LETTERS) + 300, 97, ours.ids["<|user|>"]]
    assert ours.ids["<|endoftext|>"] in ours.ends


@pytest.mark.refusal
def test_refusals():
    t = tokenizer_of(scored(TINY))
    for metadata, said in (
        ({}, "expected one of llama, gpt2"),
        ({G + "model": "bert"}, "model='bert': expected one of llama, gpt2"),
        ({G + "model": "llama"}, "no list tokenizer.ggml.tokens"),
        (scored(TINY) | {G + "scores": [0.0]}, "1 scores of"),
        (scored(TINY) | {G + "token_type": np.int32([1, 2])}, "2 types of"),
        (pairs(1, "other"), "pre='other': expected one of gpt-2"),
    ):
        with pytest.raises(cp.ClprimError, match=said):
            tokenizer_of(metadata)
    with pytest.raises(cp.ClprimError, match="expected a string"):
        t.encode(b"the")
    with pytest.raises(cp.ClprimError, match="is no token"):
        t.decode([10**6])
    with pytest.raises(cp.ClprimError, match="expected numbers of tokens"):
        t.decode(["a"])
