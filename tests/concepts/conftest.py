"""Tiny language models with random weights, saved as transformers saves them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

_TEXT = "the a cat dog sat on mat ran far sum of two and three is five ? . why how many"
WORDS = _TEXT.split()
TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }} [end] {% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def _tokenizer(folder: Path, bos: bool) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    names = ["<s>", "</s>", "[unk]", *WORDS, "[", "]", "user", "assistant", "end", "hello"]
    tokenizer = Tokenizer(WordLevel({w: i for i, w in enumerate(names)}, unk_token="[unk]"))
    tokenizer.pre_tokenizer = Whitespace()
    special = {"eos_token": "</s>", "unk_token": "[unk]", "pad_token": "</s>"}
    if bos:
        special["bos_token"] = "<s>"  # id 0, a token like any other
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    if bos:
        wrapped.chat_template = TEMPLATE
    wrapped.save_pretrained(folder)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of 3 blocks whose BOS has the id 0, with a chat template."""
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
        bos_token_id=0, eos_token_id=1, pad_token_id=1, initializer_range=0.3,
    )  # fmt: skip
    torch.manual_seed(3)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    _tokenizer(folder, bos=True)
    return folder


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
    _tokenizer(folder, bos=False)
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
