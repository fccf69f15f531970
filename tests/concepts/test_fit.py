"""A dictionary of another model, place or width is refused before the first batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from thetascope.concepts.fit import check_on_texts, check_pair
from thetascope.concepts.formats import read_dictionary
from thetascope.concepts.language_model import LanguageModel
from thetascope.concepts.lm_config import LanguageModelConfig
from thetascope.errors import InputError


def saved(to: Path, d: int = 32, **about: Any) -> Path:
    to.mkdir()
    both = torch.cat([torch.eye(d), -torch.eye(d)])
    tensors = {
        "W_enc": both.T.contiguous(), "b_enc": torch.zeros(2 * d), "W_dec": both,
        "b_dec": torch.zeros(d),
    }  # fmt: skip
    save_file(tensors, to / "sae_weights.safetensors")
    given = {"model_name": "tiny-llama", "hook_name": "blocks.1.hook_resid_post"} | about
    (to / "cfg.json").write_text(json.dumps({"architecture": "standard", "metadata": given}))
    return to


@pytest.fixture
def lm(tiny_llama: Path) -> LanguageModel:
    return LanguageModel(LanguageModelConfig(str(tiny_llama), hook="1", device="cpu"))


def test_a_pair_that_fits(lm: LanguageModel, tmp_path: Path) -> None:
    read = read_dictionary(saved(tmp_path / "a", prepend_bos=True))
    assert check_pair(lm, read) == ()
    check = check_on_texts(lm, read, ["the cat sat on the mat"] * 3)
    assert check.explained > 0.999
    assert check.n_tokens == 18
    assert not check.warnings


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"d": 16}, "width 16, the model .* has 32"),
        ({"hook_name": "blocks.0.hook_resid_post"}, r"hooked at blocks.1.*use hook 0.output"),
        ({"hook_name": "blocks.1.hook_resid_pre"}, r"use hook 1.input"),
        ({"model_name": "gpt2-small"}, "made for gpt2-small"),
    ],
)
def test_pairs_that_do_not_fit(
    about: dict[str, Any], message: str, lm: LanguageModel, tmp_path: Path
) -> None:
    read = read_dictionary(saved(tmp_path / "a", **about))
    with pytest.raises(InputError, match=message):
        check_pair(lm, read)


def test_a_prefix_that_is_missing(tiny_llama: Path, tmp_path: Path) -> None:
    bare = LanguageModel(
        LanguageModelConfig(str(tiny_llama), hook="1", device="cpu", prefix="none")
    )
    with pytest.raises(InputError, match="token in front"):
        check_pair(bare, read_dictionary(saved(tmp_path / "a", prepend_bos=True)))


def test_another_model_on_purpose(lm: LanguageModel, tmp_path: Path) -> None:
    read = read_dictionary(saved(tmp_path / "a", model_name="Owner/Tiny-Llama-HF"))
    assert check_pair(lm, read) == ()
    other = read_dictionary(saved(tmp_path / "b", model_name="other"))
    assert check_pair(lm, other, any_model=True) == ()


def test_what_cannot_be_told_is_said(lm: LanguageModel, tmp_path: Path) -> None:
    unknown = saved(tmp_path / "a", hook_name=None, model_name=None, prepend_bos=False)
    notes = " ".join(check_pair(lm, read_dictionary(unknown)))
    assert "does not say its hook" in notes
    assert "does not say its language model" in notes
    assert "without a token in front" in notes
    ours = saved(
        tmp_path / "b", context_size=16,
        thetascope={"model_fingerprint": "another", "template": "chat"},
    )  # fmt: skip
    notes = " ".join(check_pair(lm, read_dictionary(ours)))
    assert "another quantisation" in notes
    assert "trained on chat text" in notes
    assert "at most 16 tokens" in notes


def test_a_fingerprint_settles_the_model(lm: LanguageModel, tmp_path: Path) -> None:
    named = saved(
        tmp_path / "a", model_name="anything", thetascope={"model_fingerprint": lm.fingerprint}
    )
    assert check_pair(lm, read_dictionary(named)) == ()
