"""Hidden states: the right place, the right tokens, the same in any batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from thetascope.concepts import lm_source
from thetascope.concepts.hook import Hook, parse_hook
from thetascope.concepts.language_model import LanguageModel
from thetascope.concepts.lm_config import LanguageModelConfig
from thetascope.errors import InputError, MissingExtra


def model(folder: Path, hook: str = "1", whole: bool = False, **settings: Any) -> LanguageModel:
    return LanguageModel(
        LanguageModelConfig(str(folder), hook=hook, device="cpu", **settings), whole=whole
    )


def states_of(lm: LanguageModel, texts: list[str]) -> list[torch.Tensor]:
    """The counted tokens' hidden states of each text, in order."""
    out: list[list[torch.Tensor]] = [[] for _ in texts]
    for read in lm.read(texts):
        for state, row in zip(read.states, read.rows, strict=True):
            out[int(row)].append(state)
    return [torch.stack(rows) for rows in out]


def whole_pass(folder: Path, ids: list[int]) -> tuple[Any, Any]:
    """transformers' own hidden states of one unpadded text, and the model."""
    known = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        return known(torch.tensor([ids]), output_hidden_states=True).hidden_states, known


@pytest.mark.parametrize(
    ("text", "hook"),
    [
        ("14", Hook(14)),
        ("14.input", Hook(14, "input")),
        ("3:output", Hook(3)),
        ("blocks.7.hook_resid_post", Hook(7)),
        ("blocks.8.hook_resid_pre", Hook(8, "input")),
        ("model.layers.10", Hook(10)),
        ("layers.10", Hook(10)),
        ("h.2", Hook(2)),
    ],
)
def test_hook_names(text: str, hook: Hook) -> None:
    assert parse_hook(text) == hook


@pytest.mark.parametrize("text", ["", "x", "blocks.3.hook_mlp_out", "blocks.3.attn.hook_z", "-1"])
def test_other_places_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="place in the residual stream"):
        parse_hook(text)


def test_saelens_names_come_back() -> None:
    for hook in (Hook(3), Hook(4, "input")):
        assert parse_hook(hook.saelens) == parse_hook(str(hook)) == hook


@pytest.mark.parametrize("kind", ["tiny_llama", "tiny_gpt2", "tiny_bert"])
def test_the_hook_is_transformers_hidden_state(
    kind: str, texts: list[str], request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(kind)
    n_layers = 2 if kind == "tiny_gpt2" else 3
    for layer in range(n_layers):
        for site in ("input", "output"):
            lm = model(folder, f"{layer}.{site}")
            tokens = lm.tokeniser(texts[:3])
            found = states_of(lm, texts[:3])
            for i in range(3):
                hidden, known = whole_pass(folder, tokens.ids[i].tolist())
                last = site == "output" and layer == n_layers - 1
                expected = hidden[layer + (site == "output")][0]
                mine = found[i]
                if last and kind != "tiny_bert":  # hidden_states[-1] is behind the final norm
                    norm = known.norm if kind == "tiny_llama" else known.ln_f
                    assert not torch.allclose(mine, expected[tokens.counted[i]], atol=1e-2)
                    mine = norm(mine)
                torch.testing.assert_close(mine, expected[tokens.counted[i]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["tiny_llama", "tiny_gpt2", "tiny_bert"])
def test_any_batch_order_and_padding(
    kind: str, texts: list[str], request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(kind)
    alone = [states_of(model(folder), [t])[0] for t in texts]
    order = [3, 5, 0, 2, 4, 1]
    for batch_tokens in (8, 64, 4096):
        lm = model(folder, batch_tokens=batch_tokens)
        mixed = states_of(lm, [texts[i] for i in order])
        for place, i in enumerate(order):
            scale = alone[i].abs().max()
            assert float((mixed[place] - alone[i]).abs().max() / scale) < 1e-4


def test_left_padding_in_the_tokenizer_changes_nothing(tiny_llama: Path, texts: list[str]) -> None:
    lm = model(tiny_llama)
    expected = states_of(lm, texts)
    lm._tokenizer.padding_side = "left"
    for a, b in zip(states_of(lm, texts), expected, strict=True):
        assert torch.equal(a, b)


def test_stopping_the_pass_changes_nothing(tiny_llama: Path, texts: list[str]) -> None:
    stopped, whole = model(tiny_llama, "1"), model(tiny_llama, "1", whole=True)
    ran: list[int] = []
    lm_source.find_blocks(whole._body)[2].register_forward_hook(lambda *_: ran.append(1))
    for a, b in zip(states_of(stopped, texts), states_of(whole, texts), strict=True):
        assert torch.equal(a, b)
    assert ran, "the whole pass ran the blocks behind the hook"
    assert sum(1 for name, _ in stopped._body.named_modules() if name.endswith("mlp")) == 2


def test_the_prefix_is_there_and_never_counted(tiny_llama: Path) -> None:
    lm = model(tiny_llama)
    assert lm.tokeniser.prefix.id == 0, "a BOS id of 0 is a token"
    tokens = lm.tokeniser(["the cat sat", "the"])
    assert [int(row[0]) for row in tokens.ids] == [0, 0]
    assert not any(mask[0] for mask in tokens.counted)
    assert tokens.n_tokens.tolist() == [3, 1]
    assert [len(s) for s in states_of(lm, ["the cat sat", "the"])] == [3, 1]


def test_a_prefix_that_stands_in(tiny_gpt2: Path) -> None:
    prefix = model(tiny_gpt2).tokeniser.prefix
    assert prefix.id == 1
    assert prefix.why == "the eos_token stands in for bos_token"


def test_prefix_as_asked(tiny_llama: Path) -> None:
    assert model(tiny_llama, prefix="five").tokeniser.prefix.text == "five"
    none = model(tiny_llama, prefix="none")
    assert none.tokeniser(["the cat"]).lengths.tolist() == [2]
    with pytest.raises(InputError, match="2 tokens, expected one"):
        model(tiny_llama, prefix="the cat")


def test_all_tokens_are_counted_on_request(tiny_llama: Path) -> None:
    assert [len(s) for s in states_of(model(tiny_llama, count_all=True), ["the cat"])] == [3]


def test_an_encoders_frame_is_not_counted(tiny_bert: Path) -> None:
    lm = model(tiny_bert)
    tokens = lm.tokeniser(["the cat sat"])
    assert tokens.ids[0][[0, -1]].tolist() == [2, 3]  # CLS and SEP, once each
    assert tokens.counted[0].tolist() == [False, True, True, True, False]


def test_template_tokens_are_not_counted(tiny_llama: Path) -> None:
    lm = model(tiny_llama, template="chat")
    tokens = lm.tokeniser(["the user sat ."])
    words = lm.token_texts(tokens.ids[0][tokens.counted[0]])
    assert words == ["the", "user", "sat", "."], "not the template's own 'user'"
    assert len(tokens.ids[0]) > 8
    assert tokens.n_tokens.tolist() == [4]
    raw = states_of(model(tiny_llama), ["the user sat ."])[0]
    assert not torch.allclose(states_of(lm, ["the user sat ."])[0], raw, atol=1e-3)


def test_cutting_is_counted_and_keeps_what_closes(tiny_llama: Path, tiny_bert: Path) -> None:
    tokens = model(tiny_llama, max_tokens=4).tokeniser(["the cat sat on", "the"])
    assert [len(r) for r in tokens.ids] == [4, 2]
    assert tokens.n_tokens.tolist() == [4, 1]
    assert tokens.n_cut.tolist() == [1, 0]
    assert tokens.truncated == 1
    cut = model(tiny_bert, max_tokens=4).tokeniser(["the cat sat on"])
    assert cut.ids[0][-1] == 3, "SEP stays"
    assert cut.n_cut.tolist() == [2]
    chat = model(tiny_llama, template="chat", max_tokens=13).tokeniser(["the cat " * 40])
    assert len(chat.ids[0]) == 13
    assert int(chat.counted[0].sum()) + int(chat.n_cut[0]) == 80


def test_a_text_of_100_000_tokens(tiny_llama: Path) -> None:
    lm = model(tiny_llama)
    tokens = lm.tokeniser(["the cat " * 50_000])
    assert tokens.n_cut.tolist() == [100_000 - 127]
    assert len(states_of(lm, ["the cat " * 50_000])[0]) == 127


def test_halves_of_characters(tiny_llama: Path) -> None:
    assert model(tiny_llama).tokeniser(["the \ud83d cat"]).n_tokens[0] >= 2


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(tiny_llama: Path, texts: list[str], dtype: str) -> None:
    exact = torch.cat(states_of(model(tiny_llama), texts))
    half = torch.cat(states_of(model(tiny_llama, dtype=dtype), texts)).float()
    assert torch.nn.functional.cosine_similarity(half, exact).min() > 0.99


def test_hidden_states_that_are_not_finite(tiny_llama: Path) -> None:
    lm = model(tiny_llama)
    lm._body.embed_tokens.weight.data.fill_(float("inf"))
    with pytest.raises(InputError, match="not finite in float32"):
        list(lm.read(["the cat"]))


def test_one_clear_line(tiny_llama: Path, tiny_gpt2: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="blocks 0 to 2, asked for 3"):
        model(tiny_llama, "3")
    with pytest.raises(InputError, match=r"record 2.*no tokens"):
        model(tiny_llama).tokeniser(["the", ""])
    with pytest.raises(InputError, match="no chat template"):
        model(tiny_gpt2, template="chat")
    with pytest.raises(InputError, match="takes 128 tokens, asked for 999"):
        model(tiny_llama, max_tokens=999)
    with pytest.raises(InputError, match="alone have"):
        model(tiny_llama, template="chat", max_tokens=5).tokeniser(["the cat " * 9])
    with pytest.raises(InputError, match="no such folder"):
        model(tmp_path / "none" / "there")
    with pytest.raises(InputError, match=r"expected config\.json or a \.gguf file"):
        model(tmp_path)
    (tmp_path / "model.bin").write_bytes(b"x")
    with pytest.raises(InputError, match="never opened"):
        model(tmp_path / "model.bin")
    with pytest.raises(InputError, match="sees no GPU"):
        replace_device(tiny_llama)


def replace_device(folder: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    LanguageModel(replace(LanguageModelConfig(str(folder), hook="1"), device="spread"))


def test_encoder_decoders_are_refused(tmp_path: Path) -> None:
    transformers.T5Config(d_model=16, num_layers=1).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="encoder-decoder"):
        model(tmp_path)


def test_pickled_weights_are_never_read(tiny_llama: Path, tmp_path: Path) -> None:
    for file in tiny_llama.iterdir():
        if file.suffix == ".json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"only pickled weights"):
        model(tmp_path)


def test_identity_is_what_decides(tiny_llama: Path) -> None:
    base = model(tiny_llama).identity
    assert model(tiny_llama, batch_tokens=7).identity == base
    assert model(tiny_llama, "blocks.1.hook_resid_post").identity == base
    for other in ({"dtype": "bfloat16"}, {"max_tokens": 9}, {"template": "chat"}):
        assert model(tiny_llama, **other).identity != base


def offline(word: str) -> None:
    try:
        lm_source.locate(word)
    except (InputError, MissingExtra):
        pytest.skip("the offline model is not installed")


def test_offline_minilm() -> None:
    offline("offline-minilm")
    lm = LanguageModel(LanguageModelConfig("offline-minilm", hook="3", device="cpu"))
    text = "What is the sum of 12 and 30?"
    ids = lm.tokeniser([text]).ids[0].tolist()
    hidden, _ = whole_pass(lm_source.locate("offline-minilm").where, ids)  # type: ignore[arg-type]
    torch.testing.assert_close(states_of(lm, [text])[0], hidden[4][0, 1:-1], rtol=1e-4, atol=1e-4)


def test_offline_smollm2_reads_gguf_and_its_sink_is_not_counted() -> None:
    offline("offline")
    config = LanguageModelConfig("offline", hook="14", device="cpu")
    lm = LanguageModel(config, whole=True)
    tokens = lm.tokeniser(["Natalia sold clips to 48 of her friends in April."])
    read = lm.read_batch(tokens, lm.plan(tokens)[0])
    with torch.inference_mode():
        whole = lm._body(torch.from_numpy(tokens.ids[0])[None], output_hidden_states=True)
    hidden = whole.hidden_states[15][0]
    torch.testing.assert_close(read.states, hidden[1:], rtol=1e-3, atol=1e-3)
    norms = hidden.norm(dim=1)
    assert norms[0] > 50 * norms[1:].median(), "the first token is the sink"
    assert float(read.states.norm(dim=1).max()) < 0.1 * float(norms[0])
    assert np.array_equal(read.tokens, tokens.ids[0][1:])
