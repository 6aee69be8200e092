"""Language models beside transformers, and beside themselves computed anew."""

import numpy as np
import pytest
from language_models import (
    ARCHITECTURES,
    COMMON,
    CONTEXT,
    SIZE,
    TEMPLATE,
    TINY,
    WIDTH,
    pairs,
    scored,
    tensors,
    write,
)

import clprim as cp
import clprim.llm
from clprim.command.cli import main
from clprim.llm.sampling import Sampling, choose
from clprim.runtime.stats import stats

RNG = np.random.default_rng(0)


def tiny(folder, name="llama", tokenizer=None, **options):
    path = folder / f"{name}.gguf"
    write(path, name, tokenizer or scored(TINY), **options)
    return path


# What transformers leaves as larger models of the name have it, whatever the file says.
UNREAD = {
    "qwen2moe": {"moe_intermediate_size": 32, "shared_expert_intermediate_size": 48},
    "qwen3": {"head_dim": SIZE},
    "qwen3moe": {"head_dim": SIZE, "moe_intermediate_size": 32},
    "gemma2": {"sliding_window": 8, "query_pre_attn_scalar": SIZE},
    "gemma3": {"sliding_window": 8, "query_pre_attn_scalar": SIZE},
    "phi3": {"sliding_window": 24},
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_logits_beside_transformers(device, tmp_path, name):
    torch, transformers, _ = map(pytest.importorskip, ("torch", "transformers", "accelerate"))
    path = tiny(tmp_path, name)
    ids = RNG.integers(3, 270, 45).tolist()
    options = {"dtype": torch.float32, "attn_implementation": "eager", **UNREAD.get(name, {})}
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file=path.name, **options
    )
    with torch.no_grad():
        expected = theirs(torch.tensor([ids])).logits[0].numpy()
    model = clprim.llm.load(path)
    found = model.logits(ids).get()
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-3 * expected.std()


def test_mistral_beside_transformers(device, tmp_path):
    """Transformers reads no file of the name: its network is given the weights, halves apart."""
    torch, transformers = map(pytest.importorskip, ("torch", "transformers"))
    said = {"rope.dimension_count": SIZE, "attention.sliding_window": 24}
    path = tmp_path / "mistral.gguf"
    weights = write(path, "mistral", scored(TINY), said=said)
    config = transformers.MistralConfig(
        vocab_size=len(weights["token_embd.weight"]),
        hidden_size=WIDTH,
        intermediate_size=COMMON["feed_forward_length"],
        num_hidden_layers=COMMON["block_count"],
        num_attention_heads=COMMON["attention.head_count"],
        num_key_value_heads=COMMON["attention.head_count_kv"],
        head_dim=SIZE,
        rms_norm_eps=COMMON["attention.layer_norm_rms_epsilon"],
        rope_theta=COMMON.get("rope.freq_base", 10000.0),
        sliding_window=24,
        attn_implementation="eager",
    )
    theirs = transformers.MistralForCausalLM(config).eval()
    names = {
        "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj", "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "token_embd": "model.embed_tokens",
        "output_norm": "model.norm", "output": "lm_head",
    }  # fmt: skip
    state = {}
    for name, given in weights.items():
        *layer, part, kind = name.split(".")
        value = given
        if part in ("attn_q", "attn_k"):
            value = value.reshape(-1, SIZE // 2, 2, WIDTH).swapaxes(1, 2).reshape(-1, WIDTH)
        at = f"model.layers.{layer[1]}." if layer else ""
        state[f"{at}{names[part]}.{kind}"] = torch.from_numpy(np.ascontiguousarray(value))
    theirs.load_state_dict(state)
    ids = RNG.integers(3, 270, 45).tolist()
    with torch.no_grad():
        expected = theirs(torch.tensor([ids])).logits[0].numpy()
    found = clprim.llm.load(path).logits(ids).get()
    assert np.abs(found - expected).max() <= 1e-3 * expected.std()


def test_weights_of_few_bits_are_those_that_the_package_dequantises(device, tmp_path):
    formats = {"attn_q": "Q8_0", "ffn_up": "Q4_0", "ffn_down": "F16", "attn_output": "BF16"}
    formats["token_embd"] = "Q5_0"
    weights = write(tmp_path / "packed.gguf", "qwen2", scored(TINY), formats=formats)
    write(tmp_path / "plain.gguf", "qwen2", scored(TINY), weights=weights)
    ids = RNG.integers(3, 270, 20)
    packed, plain = (
        clprim.llm.load(tmp_path / f"{name}.gguf").logits(ids).get() for name in ("packed", "plain")
    )
    assert np.abs(packed - plain).max() <= 1e-2 * plain.std()


def test_a_text_grows_as_computed_anew(device, tmp_path):
    """The window of 8 is crossed, and so is the end of a tile of 16."""
    model = clprim.llm.load(tiny(tmp_path, "gemma3"))
    for start in (1, 7, 16, 18):
        ids = RNG.integers(3, 259, start).tolist()
        found = model.generate(ids, tokens=12)
        text = "".join(found)
        assert text == model.detokenize(found.tokens)
        assert found.prompt_tokens == start and found.prefill_seconds > 0
        scores = model.logits([*ids, *found.tokens]).get()[start - 1 :]
        chosen = np.take_along_axis(scores[: len(found.tokens)], np.array(found.tokens)[:, None], 1)
        # Rounding of 16 bits may tell apart what is as good as equal.
        assert (chosen[:, 0] >= scores[: len(found.tokens)].max(1) - 1e-2 * scores.std()).all()


@pytest.mark.parametrize("form", ["Q8_0", "F16", None])
def test_one_token_takes_the_experts_that_it_has_chosen(device, tmp_path, form):
    formats = {f"ffn_{name}_exps": form for name in ("gate", "up", "down") if form}
    model = clprim.llm.load(tiny(tmp_path, "qwen2moe", formats=formats))
    ids = RNG.integers(3, 259, 9).tolist()
    found = model.generate(ids, tokens=12)
    list(found)
    scores = model.logits([*ids, *found.tokens]).get()[len(ids) - 1 :][: len(found.tokens)]
    chosen = np.take_along_axis(scores, np.array(found.tokens)[:, None], 1)
    assert (chosen[:, 0] >= scores.max(1) - 1e-2 * scores.std()).all()
    if form is not None:  # of four experts two, in three layers
        assert model.explain().count("quantized/rows") == 3 * 2 * 3


def test_prompts_of_any_length_compile_nothing_new(device, tmp_path):
    model = clprim.llm.load(tiny(tmp_path))
    first = list(model.generate([5, 6, 7], tokens=3))
    before = stats()
    for count in (1, 2, 9, 16):
        model.generate(RNG.integers(3, 259, count).tolist(), tokens=4, seed=count).close()
        list(model.generate(RNG.integers(3, 259, count).tolist(), tokens=4))
    assert list(model.generate([5, 6, 7], tokens=3)) == first
    spent = stats() - before
    assert (spent.builds, spent.plans) == (0, 0)


def test_keys_and_values_of_8_bits(device, tmp_path):
    path = tiny(tmp_path, "gemma3")
    model, other = (clprim.llm.load(path, cache=dtype) for dtype in ("int8", "float16"))
    ids = RNG.integers(3, 259, 40).tolist()
    found, exact = (other.logits(ids, cache=dtype).get() for dtype in ("int8", "float32"))
    assert 1e-4 * exact.std() < np.abs(found - exact).max() <= 0.1 * exact.std()
    text = model.generate(ids, tokens=9)
    "".join(text)
    scores = model.logits([*ids, *text.tokens], cache="int8").get()[len(ids) - 1 : -1]
    chosen = np.take_along_axis(scores, np.array(text.tokens)[:, None], 1)[:, 0]
    assert (chosen >= scores.max(1) - 0.05 * exact.std()).all()
    sizes = [float(m.explain().split(" keeps ")[1].split()[0]) for m in (model, other)]
    assert sizes[0] == pytest.approx(sizes[1] * (16 + 4) / 32, abs=0.1)
    with pytest.raises(cp.ClprimError, match="bfloat16 or int8"):
        clprim.llm.load(path, cache="int16")


def test_texts_side_by_side(device, tmp_path):
    model = clprim.llm.load(tiny(tmp_path))
    alone = ["".join(model.generate([n, 9], tokens=9)) for n in (20, 30)]
    both = [model.generate([n, 9], tokens=9) for n in (20, 30)]
    texts = ["", ""]
    for _ in range(9):
        for n, one in enumerate(both):
            texts[n] += next(one, "")
    assert texts == alone


def test_stop_and_special_tokens(device, tmp_path):
    path = tiny(tmp_path, more=[("tokenizer.chat_template", TEMPLATE)])
    model = clprim.llm.load(path)
    whole = "".join(model.generate([40, 41], tokens=30))
    end = whole[4:7]
    with pytest.raises(cp.ClprimError, match="stop=5: expected strings"):
        model.generate([40, 41], stop=5)
    found = model.generate([40, 41], tokens=30, stop=[end, "never"])
    assert "".join(found) == whole[: whole.index(end)]
    assert model.chat("the") == model.tokenize("<s>user: the</s>", special=True, bos=False)
    with pytest.raises(cp.ClprimError, match="the file's template says: no system"):
        model.chat([{"role": "system", "content": "x"}])
    with pytest.raises(cp.ClprimError, match="expected a dict of role and content"):
        model.chat([{"role": "user"}])


# --- sampling ------------------------------------------------------------------------------------


def drawn(scores, *, seen=(), count=400, **options):
    given = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 3}
    penalties = options.pop("penalties", (1.0, 0.0, 0.0))
    sampling = Sampling(**{**given, **options}, penalties=penalties)
    told = sampling.arrays(count, list(seen), len(scores))
    logits, found = cp.asarray(np.float32([scores])), []
    for n in range(count):
        numbers, draws, counts = told
        token = choose(logits, sampling.rule, numbers, draws, counts, cp.asarray(np.int32([n])))
        found.append(int(token.get()[0]))
    return np.bincount(found, minlength=len(scores)) / count


ODDS = np.float32([0.5, 0.05, 0.25, 0.125, 0.075])


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"top_k": 2}, [0, 2]),
        ({"top_p": 0.6}, [0, 2]),
        ({"top_p": 0.0}, [0]),
        ({"min_p": 0.2}, [0, 2, 3]),
        ({"top_k": 4, "top_p": 0.9, "min_p": 0.01}, [0, 2, 3]),
    ],
    ids=str,
)
def test_what_is_drawn(device, options, left):
    expected = np.zeros(5)
    expected[left] = ODDS[left] / ODDS[left].sum()
    found = drawn(np.log(ODDS), **options)
    assert not found[expected == 0].any()
    np.testing.assert_allclose(found, expected, atol=0.09)
    again = drawn(np.log(ODDS), count=50, **options)
    np.testing.assert_array_equal(again, drawn(np.log(ODDS), count=50, **options))


def test_temperature_and_penalties(device):
    assert drawn(np.log(ODDS), temperature=0.0, count=1)[0] == 1
    hot = np.exp(np.log(ODDS) / 2)
    np.testing.assert_allclose(drawn(np.log(ODDS), temperature=2.0), hot / hot.sum(), atol=0.09)
    scores = np.float32([2.0, 1.9, -1.0])
    for penalties in ((1.5, 0.0, 0.0), (1.0, 0.5, 0.0), (1.0, 0.0, 0.2)):
        options = {"temperature": 0.0, "count": 1, "penalties": penalties}
        assert drawn(scores, seen=[0, 2], **options)[1] == 1
        assert drawn(scores, **options)[0] == 1
    # What was chosen counts: the second token is another one.
    found = drawn(scores, temperature=0.0, count=2, penalties=(1.0, 0.5, 0.0))
    np.testing.assert_array_equal(found, [0.5, 0.5, 0])


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.refusal
def test_refusals_of_files(device, tmp_path):
    def refused(expected, name="llama", **options):
        with pytest.raises(cp.ClprimError, match=expected):
            clprim.llm.load(tiny(tmp_path, name, **options))

    weights = tensors("llama", {"vocab_size": 274}, np.random.default_rng(0))
    refused("architecture='mamba': expected one of llama, mistral, qwen2", "mamba", weights=weights)
    refused("no use for 1 tensors, extra.weight the first",
            weights=weights | {"extra.weight": weights["output_norm.weight"]})  # fmt: skip
    less = {k: w for k, w in weights.items() if k != "blk.1.ffn_up.weight"}
    refused("llama needs a tensor blk.1.ffn_up.weight", weights=less)
    shorter = weights | {"blk.0.attn_q.weight": weights["blk.0.attn_k.weight"]}
    refused(r"blk.0.attn_q.weight has shape \(32, 64\), expected \(64, 64\)", weights=shorter)
    refused("274 tokens have a text, but only 200 an embedding", said={"vocab_size": 200})
    refused("rope.scaling.type='yarn': expected one of none, linear, longrope",
            said={"rope.scaling.type": "yarn"})  # fmt: skip
    refused("4 heads of queries share 3 of keys", said={"attention.head_count_kv": 3})
    refused("expected one of llama, gpt2", tokenizer=pairs(9) | {"tokenizer.ggml.model": "t5"})
    with pytest.raises(cp.ClprimError, match=r"nothing\.gguf"):
        clprim.llm.load(tmp_path / "nothing.gguf")


@pytest.mark.refusal
def test_refusals_of_calls(device, tmp_path):
    path = tiny(tmp_path)
    with pytest.raises(cp.ClprimError, match=rf"the model's limit is {CONTEXT} tokens"):
        clprim.llm.load(path, context=CONTEXT + 1)
    model = clprim.llm.load(path, context=20)
    for options, said in (
        ({"tokens": 30}, "3 tokens and 30 more are more than the context of 20"),
        ({"temperature": -1.0}, "temperature=-1.0"),
        ({"top_p": 2.0}, "top_p=2.0: expected a number of 0 to 1"),
        ({"top_k": -1}, "top_k=-1: expected at least 0"),
        ({"repetition_penalty": 0.0}, "expected above 0"),
        ({"stop": [1]}, "expected strings"),
        ({"seed": "x"}, "expected an integer for seed"),
    ):
        with pytest.raises(cp.ClprimError, match=said):
            model.generate([3, 4, 5], **{"tokens": 4, **options})
    for ids, said in (
        ([], "expected a token at least"),
        (range(21), "21 tokens are more than the context of 20"),
        ([274], "274 is no token"),
        ([[1, 2], [3, 4]], r"expected \(L,\)"),
    ):
        with pytest.raises(cp.ClprimError, match=said):
            model.logits(ids)
    with pytest.raises(cp.ClprimError, match=r"no tokenizer\.chat_template"):
        model.chat("the")


# --- command and the real model ------------------------------------------------------------------


def test_command(device, tmp_path, capsys):
    path = str(tiny(tmp_path))
    assert main(["generate", path, "the cat", "--tokens", "5", "--device", str(device.index)]) == 0
    out, told = capsys.readouterr()
    model = clprim.llm.load(path)
    assert out == "the cat" + "".join(model.generate("the cat", tokens=5)) + "\n"
    assert "prompt 3 tokens in" in told or "prompt 4 tokens in" in told
    assert main(["generate", str(tmp_path / "none.gguf"), "x"]) == 2


def test_explain(device, tmp_path):
    text = clprim.llm.load(tiny(tmp_path)).explain()
    assert "llama: 3 layers of 64, 4 heads of 16 that share 2, 274 tokens" in text
    assert "attention" in text and "a token:" in text
