"""A tiny tokenizer and a tiny Llama with random weights, for tests and measurements."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers

_TEXT = "the a cat dog sat on mat ran far sum of two and three is five ? . why how many"
WORDS = _TEXT.split()
TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }} [end] {% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def save_tokenizer(folder: Path, bos: bool) -> None:
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


def save_tiny_llama(folder: Path) -> Path:
    """A Llama of 3 blocks whose BOS has the id 0, with a chat template."""
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
        bos_token_id=0, eos_token_id=1, pad_token_id=1, initializer_range=0.3,
    )  # fmt: skip
    torch.manual_seed(3)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    save_tokenizer(folder, bos=True)
    return folder
