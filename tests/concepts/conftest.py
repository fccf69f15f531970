"""Tiny language models with random weights, saved as transformers saves them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.concepts.tiny_models import (  # noqa: E402  (behind the check that torch is there)
    TEMPLATE,
    WORDS,
    save_tiny_llama,
    save_tokenizer,
)

__all__ = ["TEMPLATE", "WORDS"]


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of 3 blocks whose BOS has the id 0, with a chat template."""
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    return save_tiny_llama(folder)


@pytest.fixture(scope="session")
def tiny_gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 of 2 blocks (learned positions) without a BOS."""
    folder = tmp_path_factory.mktemp("models") / "tiny-gpt2"
    config = transformers.GPT2Config(
        vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=None,
        eos_token_id=1, initializer_range=0.3,
    )  # fmt: skip
    torch.manual_seed(4)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    save_tokenizer(folder, bos=False)
    return folder


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of 3 blocks."""
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    folder.mkdir()
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocab) + "\n")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "model_max_length": 64})
    )
    config = transformers.BertConfig(
        vocab_size=len(vocab), hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=64, initializer_range=0.3,
    )  # fmt: skip
    torch.manual_seed(5)
    transformers.BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def texts() -> list[str]:
    """Texts of very different lengths."""
    return [
        "the cat sat on the mat .",
        "why ?",
        "how many is the sum of two and three ? " * 5,
        "a dog ran far and the cat sat .",
        "five",
        "the dog sat on a mat and the cat ran far . " * 3,
    ]
