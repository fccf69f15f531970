"""Every published format by its own formula, and one clear line for each broken file."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from formats_cases import MAKERS, D, N, dense, goodfire, llama_scope, qwen_scope, sparsify
from safetensors.torch import load_file, save_file

from thetascope.concepts import dictionary as dictionary_module
from thetascope.concepts.fit import self_check
from thetascope.concepts.formats import Overrides, catalogue, read_dictionary
from thetascope.concepts.hook import parse_hook
from thetascope.errors import InputError, MissingExtra


def states(seed: int = 0, n: int = 60) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((n, D))).float() * 2


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_each_format(name: str, tmp_path: Path) -> None:
    case = MAKERS[name](tmp_path)
    read = read_dictionary(case.place)
    expected = case.encode(states().numpy())
    assert 0.01 < (expected > 0).mean() < 0.9
    np.testing.assert_allclose(dense(read, states()).numpy(), expected, rtol=1e-4, atol=1e-4)
    assert read.info.model == case.model
    assert str(read.info.hook) == case.hook
    assert (read.info.d_in, read.info.n_latents) == (D, N)


def test_the_threshold_gates_llama_scope(tmp_path: Path) -> None:
    case = llama_scope(tmp_path)
    gated = (dense(read_dictionary(case.place), states()) > 0).float().sum(1).mean()
    settings = json.loads((case.place / "hyperparams.json").read_text())
    (case.place / "hyperparams.json").write_text(json.dumps({**settings, "jump_relu_threshold": 0}))
    free = (dense(read_dictionary(case.place), states()) > 0).float().sum(1).mean()
    assert gated < 0.9 * free


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_chunks_change_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = MAKERS[name](tmp_path)
    whole = read_dictionary(case.place).encode(states())
    monkeypatch.setattr(dictionary_module, "CHUNK_ELEMENTS", 7 * N)
    chunked = read_dictionary(case.place)
    assert [len(rows.offsets) - 1 for rows in chunked.encode_chunks(states())] == [7] * 8 + [4]
    parts = chunked.encode(states())
    assert torch.equal(parts.offsets, whole.offsets)
    assert torch.equal(parts.tokens, whole.tokens)
    found, expected = dense(chunked, states()), case.encode(states().numpy())
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_no_tokens_give_no_rows(tmp_path: Path) -> None:
    rows = read_dictionary(goodfire(tmp_path).place).encode(torch.zeros(0, D))
    assert (len(rows.values), rows.offsets.tolist()) == (0, [0])


def test_half_precision_weights(tmp_path: Path) -> None:
    case = goodfire(tmp_path)
    half = read_dictionary(case.place, dtype="bfloat16")
    expected = case.encode(states().numpy())
    found = dense(half, states()).numpy()
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.999


def test_decoding_undoes_the_normalisation(tmp_path: Path) -> None:
    """A dictionary that holds every direction and its opposite gives each state back."""
    both = torch.cat([torch.eye(D), -torch.eye(D)])
    for normalise in ("none", "layer_norm", "constant_norm_rescale"):
        folder = tmp_path / normalise
        folder.mkdir()
        tensors = {
            "W_enc": both.T.contiguous(), "b_enc": torch.zeros(2 * D),
            "W_dec": both, "b_dec": torch.full((D,), 0.3),
        }  # fmt: skip
        save_file(tensors, folder / "sae_weights.safetensors")
        cfg = {"architecture": "standard", "normalize_activations": normalise}
        (folder / "cfg.json").write_text(json.dumps(cfg))
        read = read_dictionary(folder)
        back = read.decode(read.encode(states()), states())
        torch.testing.assert_close(back, states(), rtol=1e-3, atol=1e-3)
        check = self_check(read, states())
        assert check.explained > 0.999
        assert check.l0 == pytest.approx(D)
        assert not check.warnings


def test_outliers_do_not_make_the_explained_variance(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    first = torch.zeros(D)
    first[0] = 1
    tensors = {"W_enc": first[:, None], "b_enc": torch.zeros(1), "W_dec": first[None].clone(),
               "b_dec": torch.zeros(D)}  # fmt: skip
    save_file(tensors, folder / "sae_weights.safetensors")
    (folder / "cfg.json").write_text(json.dumps({"architecture": "standard"}))
    x = states(n=200)
    x[7] = 1000 * first
    check = self_check(read_dictionary(folder), x)
    typical = torch.cat([x[:7], x[8:]])
    error = typical.square().sum() - typical[:, 0].clamp(min=0).square().sum()
    expected = 1 - error / (typical - typical.mean(0)).square().sum()
    assert check.n_outliers == 1
    assert check.explained == pytest.approx(float(expected), rel=1e-4)
    assert check.explained_all > 0.99


def test_the_self_check_warns(tmp_path: Path) -> None:
    check = self_check(read_dictionary(goodfire(tmp_path).place), states())
    assert any("of the variance is explained" in w for w in check.warnings)


# What the user sees when a file is broken.


def test_widths_that_do_not_fit(tmp_path: Path) -> None:
    folder = sparsify(tmp_path).place
    tensors = load_file(folder / "sae.safetensors")
    save_file({**tensors, "W_dec": torch.zeros(N, D + 1)}, folder / "sae.safetensors")
    with pytest.raises(InputError, match=r"W_dec has shape \(32, 11\), expected \(32, 10\)"):
        read_dictionary(folder)
    save_file({**tensors, "encoder.weight": torch.zeros(N, D + 1)}, folder / "sae.safetensors")
    with pytest.raises(InputError, match="the settings say width 10, W_enc has 11"):
        read_dictionary(folder)


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    folder = sparsify(tmp_path).place
    tensors = load_file(folder / "sae.safetensors")
    tensors["encoder.bias"][3] = float("nan")
    save_file(tensors, folder / "sae.safetensors")
    with pytest.raises(InputError, match="b_enc holds numbers that are not finite"):
        read_dictionary(folder)


def test_a_file_that_is_cut_short(tmp_path: Path) -> None:
    folder = sparsify(tmp_path).place
    whole = (folder / "sae.safetensors").read_bytes()
    for kept in (0, 5, len(whole) // 2, len(whole) - 1):
        (folder / "sae.safetensors").write_bytes(whole[:kept])
        with pytest.raises(InputError, match="damaged or cut short") as caught:
            read_dictionary(folder)
        assert "\n" not in str(caught.value)
    file = goodfire(tmp_path).place
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(InputError, match="damaged or cut short"):
        read_dictionary(file)


HARM = Path(tempfile.gettempdir()) / "thetascope-harm"


class Harm:
    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(HARM), "w")


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    file = tmp_path / "Llama-3.1-8B-Instruct-SAE-l19.pth"
    torch.save({"encoder_linear.weight": Harm()}, file)
    with pytest.raises(InputError, match="pickle of more than tensors, which is never opened"):
        read_dictionary(file)
    assert not HARM.exists()
    np.savez(tmp_path / "params.npz", W_enc=np.array([Harm()], dtype=object))
    with pytest.raises(InputError, match="holds a pickle, which is never opened"):
        read_dictionary(tmp_path)


def test_settings_that_do_not_fit(tmp_path: Path) -> None:
    folder = sparsify(tmp_path).place
    cfg = json.loads((folder / "cfg.json").read_text())
    for change, message in (
        ({"transcode": True}, "not a plain dictionary"),
        ({"activation": "groupmax"}, "expected topk, found 'groupmax'"),
        ({"k": 99}, "k is 99, expected 1 to 32"),
    ):
        (folder / "cfg.json").write_text(json.dumps({**cfg, **change}))
        with pytest.raises(InputError, match=message):
            read_dictionary(folder)
    (folder / "cfg.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        read_dictionary(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architecture": "transcoder"}, "architecture.*found 'transcoder'"),
        ({"activation_fn": "tanh-relu"}, "activation 'tanh-relu'"),
        ({"normalize_activations": "covariance_whitening"}, "covariance_whitening"),
        ({"hook_name": "blocks.3.attn.hook_z"}, "only the residual stream"),
        ({"reshape_activations": "hook_z"}, "attention heads"),
        ({"architecture": "jumprelu"}, "needs threshold, which is not there"),
        ({"architecture": "topk"}, "k is None"),
    ],
)
def test_saelens_folders_that_are_not_read(
    change: dict[str, str], message: str, tmp_path: Path
) -> None:
    tensors = {
        "W_enc": torch.ones(D, N), "b_enc": torch.ones(N), "W_dec": torch.ones(N, D),
        "b_dec": torch.ones(D),
    }  # fmt: skip
    save_file(tensors, tmp_path / "sae_weights.safetensors")
    (tmp_path / "cfg.json").write_text(json.dumps({"architecture": "standard", **change}))
    with pytest.raises(InputError, match=message):
        read_dictionary(tmp_path)


def test_a_fine_tuning_factor_goes_into_the_decoder(tmp_path: Path) -> None:
    tensors = {
        "W_enc": torch.eye(D), "b_enc": torch.zeros(D), "W_dec": torch.eye(D),
        "b_dec": torch.zeros(D), "scaling_factor": torch.full((D,), 2.0),
    }  # fmt: skip
    save_file(tensors, tmp_path / "sae_weights.safetensors")
    cfg = {"architecture": "standard", "apply_b_dec_to_input": False}
    (tmp_path / "cfg.json").write_text(json.dumps(cfg))
    with pytest.raises(InputError, match=r"scaling_factor that cfg\.json says nothing of"):
        read_dictionary(tmp_path)
    (tmp_path / "cfg.json").write_text(json.dumps({**cfg, "finetuning_scaling_factor": True}))
    read = read_dictionary(tmp_path)
    x = states().abs()
    torch.testing.assert_close(dense(read, x), x)
    torch.testing.assert_close(read.decode(read.encode(x), x), 2 * x)


def test_what_is_no_dictionary(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        read_dictionary(tmp_path / "none")
    with pytest.raises(InputError, match=r"no dictionary that is known; expected cfg.json"):
        read_dictionary(tmp_path)
    torch.save({"other": torch.ones(2)}, tmp_path / "x.pt")
    with pytest.raises(InputError, match="its tensors are other"):
        read_dictionary(tmp_path / "x.pt")
    torch.save([torch.ones(2)], tmp_path / "y.pt")
    with pytest.raises(InputError, match="expected named tensors, found a list"):
        read_dictionary(tmp_path / "y.pt")


def test_k_is_asked_for_where_it_is_not_known(tmp_path: Path) -> None:
    case = qwen_scope(tmp_path)
    moved = tmp_path / "layer18.sae.pt"
    case.place.rename(moved)
    with pytest.raises(InputError, match="number of active latents"):
        read_dictionary(moved)
    found = read_dictionary(moved, Overrides(k=4, hook="blocks.17.hook_resid_post"))
    assert str(found.info.hook) == "17.output"


# Names.


def test_presets_name_a_model_and_a_place_each() -> None:
    for name in ("gemma-2-2b", "llama-3.1-8b", "llama-3.1-8b-instruct", "mistral-7b", "qwen3-8b",
                 "deepseek-r1-distill-llama-8b"):  # fmt: skip
        preset = catalogue.PRESETS[name]
        assert preset.says.model
        assert preset.files
        if preset.says.hook:
            parse_hook(preset.says.hook)


def test_a_preset_without_a_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    import huggingface_hub

    def refuse(*_: object) -> str:
        raise OSError("no network\nat all")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    with pytest.raises(InputError, match=r"cannot fetch google/gemma-scope-2b-pt-res.*no network"):
        read_dictionary("gemma-2-2b")


def fake_hub(monkeypatch: pytest.MonkeyPatch, root: Path) -> list[tuple[str, str]]:
    """A hub that is a folder, and what was asked of it."""
    import huggingface_hub

    asked: list[tuple[str, str]] = []

    def fetch(repo: str, name: str) -> str:
        asked.append((repo, name))
        return str(root / repo / name)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)
    return asked


def test_a_preset_from_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from formats_cases import gemma_scope

    (tmp_path / "google").mkdir()
    case = gemma_scope(tmp_path / "google")
    asked = fake_hub(monkeypatch, tmp_path)
    read = read_dictionary("gemma-2-2b")
    assert asked == [("google/gemma-scope-2b-pt-res",
                      "layer_20/width_16k/average_l0_71/params.npz")]  # fmt: skip
    assert (read.info.model, str(read.info.hook)) == ("google/gemma-2-2b", "20.output")
    np.testing.assert_allclose(
        dense(read, states()).numpy(), case.encode(states().numpy()), rtol=1e-4, atol=1e-4
    )


def test_saelens_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "hub"
    (root / "fnlp").mkdir(parents=True)
    case = llama_scope(root / "fnlp")
    case.place.rename(root / "fnlp" / "moved")
    (root / "fnlp" / "repo").mkdir()
    (root / "fnlp" / "moved").rename(root / "fnlp" / "repo" / "L15R")
    table = {
        "llama": {
            "repo_id": "fnlp/repo", "conversion_func": "llama_scope", "model": "llama-3.1-8b",
            "saes": [{"id": "l15r", "path": "L15R", "norm_scaling_factor": float(np.sqrt(D) / 5)}],
        },
        "odd": {"repo_id": "x/y", "conversion_func": "mntss", "model": "m",
                "saes": [{"id": "a", "path": "a"}]},
    }  # fmt: skip
    monkeypatch.setattr(catalogue, "_saelens_table", lambda: table)
    fake_hub(monkeypatch, root)
    read = read_dictionary("sae_lens:llama/l15r")
    assert read.info.model == "llama-3.1-8b"
    np.testing.assert_allclose(
        dense(read, states()).numpy(), case.encode(states().numpy()), rtol=1e-4, atol=1e-4
    )
    with pytest.raises(InputError, match="no release 'none'"):
        read_dictionary("sae_lens:none/x")
    with pytest.raises(InputError, match="has no 'x'; it has l15r"):
        read_dictionary("sae_lens:llama/x")
    with pytest.raises(InputError, match="in the format 'mntss', which is not read"):
        read_dictionary("sae_lens:odd/a")


def test_saelens_catalogue_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"thetascope\[saelens\]"):
        read_dictionary("sae_lens:gpt2/x")
