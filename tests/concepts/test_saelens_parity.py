"""Activations and folders against sae-lens 6.54.12: golden figures by `make parity`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from formats_cases import MAKERS, dense
from safetensors import safe_open
from safetensors.torch import save_file

from thetascope.concepts import formats
from thetascope.concepts.formats import Overrides, read_dictionary
from thetascope.errors import InputError

GOLDEN = Path(__file__).parent / "data" / "saelens.safetensors"
PUBLISHED = Path(__file__).parent / "data" / "published.safetensors"
BUNDLED = Path(__file__).parent / "data" / "bundled.safetensors"
FACTOR = 0.37  # as in tools/make_parity_saelens.py


def cases(file: Path) -> dict[str, str]:
    with safe_open(file, "pt") as opened:
        return json.loads(opened.metadata()["cases"])


def names_in(file: Path) -> list[str]:
    with safe_open(file, "pt") as opened:
        return list(opened.keys())


def tensors_of(case: str, file: Path = GOLDEN) -> dict[str, torch.Tensor]:
    with safe_open(file, "pt") as opened:
        names = [n for n in opened.keys() if n.startswith(f"{case}/")]  # noqa: SIM118
        return {n.removeprefix(f"{case}/"): opened.get_tensor(n) for n in names}


def folder_of(case: str, to: Path) -> Path:
    """The folder as sae-lens wrote it."""
    weights = {
        n.removeprefix("weights/"): t
        for n, t in tensors_of(case).items()
        if n.startswith("weights/")
    }
    folder = to / case
    folder.mkdir(parents=True)
    save_file(weights, folder / "sae_weights.safetensors")
    (folder / "cfg.json").write_text(cases(GOLDEN)[case])
    return folder


@pytest.mark.parametrize("case", sorted(cases(GOLDEN)))
def test_activations_are_sae_lens(case: str, tmp_path: Path) -> None:
    scaled = "expected_average_only_in" in case
    read = read_dictionary(
        folder_of(case, tmp_path), Overrides(norm_factor=FACTOR if scaled else None)
    )
    golden = tensors_of(case)
    found = dense(read, golden["x"])
    assert (golden["acts"] > 0).float().mean() > 0.03, "the case has active latents"
    assert float((found - golden["acts"]).abs().max()) <= 1e-4


@pytest.mark.parametrize("case", sorted({n.split("/")[0] for n in names_in(PUBLISHED)}))
def test_other_formats_are_sae_lens(case: str, tmp_path: Path) -> None:
    golden = tensors_of(case, PUBLISHED)
    found = dense(read_dictionary(MAKERS[case](tmp_path).place), golden["x"])
    assert (golden["acts"] > 0).float().mean() > 0.01
    assert float((found - golden["acts"]).abs().max()) <= 1e-4


def test_every_architecture_and_normalisation_is_there() -> None:
    names = " ".join(cases(GOLDEN))
    for kind in ("standard", "gated", "jumprelu", "topk", "topk-rescaled", "batchtopk",
                 "matryoshka", "legacy"):  # fmt: skip
        assert f"{kind}-" in names
    for normalise in ("none", "layer_norm", "constant_norm_rescale", "expected_average_only_in"):
        assert f"standard-{normalise}-b_dec" in names


def test_the_hook_is_read_from_both_places(tmp_path: Path) -> None:
    new = read_dictionary(folder_of("standard-none-plain", tmp_path)).info
    old = read_dictionary(folder_of("legacy-topk", tmp_path)).info
    assert str(new.hook) == "1.output"
    assert new.model == "tiny"
    assert str(old.hook) == "8.input"
    assert (old.model, old.k, old.prefix, old.context_size) == ("gpt2-small", 5, True, 128)


def test_metadata_without_a_version_keeps_its_hook(tmp_path: Path) -> None:
    folder = folder_of("standard-none-plain", tmp_path)
    cfg = json.loads((folder / "cfg.json").read_text())
    cfg["metadata"] = {"model_name": "tiny", "hook_name": "blocks.2.hook_resid_pre"}
    (folder / "cfg.json").write_text(json.dumps(cfg))
    assert str(read_dictionary(folder).info.hook) == "2.input"


def test_a_factor_that_nobody_knows_is_asked_for(tmp_path: Path) -> None:
    folder = folder_of("jumprelu-expected_average_only_in-plain", tmp_path)
    with pytest.raises(InputError, match=r"normalize_activations.*not in the folder.*norm_factor"):
        read_dictionary(folder)
    (folder / "activation_scaler.json").write_text(json.dumps({"scaling_factor": FACTOR}))
    golden = tensors_of("jumprelu-expected_average_only_in-plain")
    found = dense(read_dictionary(folder), golden["x"])
    assert float((found - golden["acts"]).abs().max()) <= 1e-4


@pytest.mark.skipif(not BUNDLED.exists(), reason="no golden figures of the bundled dictionaries")
@pytest.mark.parametrize("name", sorted(cases(BUNDLED)) if BUNDLED.exists() else [])
def test_the_bundled_dictionaries_are_sae_lens(name: str) -> None:
    folder = Path(formats.__file__).parents[1] / "bundled" / name
    about = json.loads(cases(BUNDLED)[name])
    weights = (folder / "sae_weights.safetensors").read_bytes()
    assert about["sha256"] == hashlib.sha256(weights).hexdigest(), "run `make parity` again"
    assert about["same_bits"], "sae-lens loads it bit for bit"
    assert about["hook_name"].startswith("blocks.")
    golden = tensors_of(name, BUNDLED)
    read = read_dictionary(folder)
    shape = (len(golden["x"]), read.info.n_latents)
    expected = torch.sparse_coo_tensor(
        golden["where"], golden["acts"], shape, check_invariants=True
    )
    expected = expected.to_dense()
    assert float((dense(read, golden["x"]) - expected).abs().max()) <= 1e-4
