"""Sparse steps equal dense ones, planted directions come back, a killed run goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from thetascope.concepts import training
from thetascope.concepts.formats import read_dictionary
from thetascope.concepts.harvest import Harvest, Shard, load_shard, open_harvest, write_shard
from thetascope.concepts.saving import save_dictionary
from thetascope.concepts.sparse_training import (
    Weights,
    decode,
    gradients,
    pick_batch_topk,
    pick_dead,
    pick_topk,
    pre_activations,
)
from thetascope.concepts.train_config import TrainConfig
from thetascope.concepts.training import train
from thetascope.errors import InputError, StaleError
from thetascope.study import files

D, PLANTED, ACTIVE = 24, 48, 3
SMALL = TrainConfig(n_latents=64, k=4, batch=256, lr=3e-3, n_tokens=100_000, checkpoint_steps=50)


def random_weights(seed: int = 0, n: int = 40, d: int = 12) -> Weights:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.4

    return Weights(draw(n, d), draw(n), draw(n, d), draw(d))


def dense_codes(pre: torch.Tensor, activation: str, k: int) -> torch.Tensor:
    if activation == "topk":
        value, where = pre.topk(k, dim=1)
        return torch.zeros_like(pre).scatter(1, where, value.relu())
    flat = pre.relu().flatten()
    value, where = flat.topk(k * len(pre))
    return torch.zeros_like(flat).scatter(0, where, value).view_as(pre)


@pytest.mark.parametrize("mkl", [True, False])
@pytest.mark.parametrize("activation", ["topk", "batchtopk"])
def test_gradients_are_autograds(
    activation: str, mkl: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not mkl:
        monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    weights, x, k = random_weights(), torch.randn(30, 12), 5
    leaves = Weights(*(w.clone().requires_grad_() for w in weights))
    codes = dense_codes((x - leaves.b_dec) @ leaves.enc.T + leaves.b_enc, activation, k)
    back = codes @ leaves.dec + leaves.b_dec
    (back - x).square().mean().backward()
    pre = pre_activations(weights, x)
    active = pick_topk(pre, k) if activation == "topk" else pick_batch_topk(pre, k, 0.05)[0]
    found = decode(active, weights.dec, weights.b_dec)
    torch.testing.assert_close(found, back.detach(), rtol=1e-5, atol=1e-5)
    for mine, leaf in zip(
        gradients(weights, x, active, (found - x) * (2 / x.numel())), leaves, strict=True
    ):
        torch.testing.assert_close(mine, leaf.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("guess", [0.0, 0.3, 1e6])
def test_batch_topk_does_not_depend_on_the_guess(guess: float) -> None:
    pre = pre_activations(random_weights(1), torch.randn(25, 12))
    active, least = pick_batch_topk(pre, 3, guess)
    expected = dense_codes(pre, "batchtopk", 3)
    found = torch.zeros_like(pre)
    token = torch.repeat_interleave(torch.arange(25), active.rows.diff())
    found[token, active.latent] = active.value
    torch.testing.assert_close(found, expected)
    assert least == pytest.approx(float(expected[expected > 0].min()))


def test_only_the_dead_are_picked() -> None:
    pre = pre_activations(random_weights(2), torch.randn(9, 12))
    dead = torch.tensor([3, 17, 30])
    picked = pick_dead(pre, dead, 2)
    assert set(picked.latent.tolist()) <= set(dead.tolist())
    assert picked.rows.tolist() == list(range(0, 19, 2))
    assert pick_dead(pre, dead, 8).rows.tolist() == list(range(0, 28, 3)), "at most all of them"


def test_the_auxiliary_gradient_is_autograds() -> None:
    weights, x, dead = random_weights(3), torch.randn(20, 12), torch.arange(5, 15)
    leaves = Weights(*(w.clone().requires_grad_() for w in weights))
    pre = (x - leaves.b_dec) @ leaves.enc.T + leaves.b_enc
    value, where = pre[:, dead].topk(4, dim=1)
    codes = torch.zeros_like(pre).scatter(1, dead[where], value)
    target = torch.randn(20, 12)
    (codes @ leaves.dec - target).square().sum().backward()
    extra = pick_dead(pre_activations(weights, x), dead, 4)
    g = 2 * (decode(extra, weights.dec) - target)
    found = gradients(weights, x, extra, g, linear=True)
    for name in ("enc", "b_enc", "dec"):
        expected = getattr(leaves, name).grad
        torch.testing.assert_close(getattr(found, name), expected, rtol=1e-4, atol=1e-4)


def make_harvest(folder: Path, n_shards: int = 4, size: int = 6000) -> Harvest:
    """Sums of a few of 48 directions, away from the origin."""
    rng = np.random.default_rng(5)
    directions = planted()
    folder.mkdir()
    files.write_json(
        folder / "harvest.json",
        {
            "d_model": D, "model": "m", "max_tokens": 16, "prefix": {"id": 0},
            "language_model": {
                "hook": "1.output", "fingerprint": "f", "template": "raw", "count_all": False,
            },
        },
    )  # fmt: skip
    for number in range(n_shards):
        codes = np.zeros((size, PLANTED))
        where = rng.permuted(np.tile(np.arange(PLANTED), (size, 1)), axis=1)[:, :ACTIVE]
        np.put_along_axis(codes, where, 1 + 4 * rng.random((size, ACTIVE)), axis=1)
        states = (3 * codes @ directions + 2).astype(np.float16)
        ids = np.arange(size, dtype=np.int32)
        write_shard(folder / f"shard-{number:05d}.safetensors", Shard(states, ids, ids), size)
    return open_harvest(folder)


def planted() -> np.ndarray:
    directions = np.random.default_rng(6).standard_normal((PLANTED, D))
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def harvest(tmp_path_factory: pytest.TempPathFactory) -> Harvest:
    return make_harvest(tmp_path_factory.mktemp("harvest") / "h")


@pytest.mark.parametrize("activation", ["topk", "batchtopk"])
def test_planted_directions_come_back(activation: str, harvest: Harvest, tmp_path: Path) -> None:
    config = replace(SMALL, activation=activation, n_tokens=300_000)
    made = train(harvest, config, tmp_path / "work")
    nearest = (made.weights.dec.numpy() @ planted().T).max(0)
    assert nearest.mean() > 0.9, nearest
    torch.testing.assert_close(made.weights.dec.norm(dim=1), torch.ones(64))
    assert (made.threshold is not None) == (activation == "batchtopk")
    save_dictionary(made, config, harvest.manifest, tmp_path / "out", dtype="float32")
    read = read_dictionary(tmp_path / "out")
    held = torch.from_numpy(load_shard(harvest.shards[0]).states).float()
    rows = read.encode(held)
    back = read.decode(rows, held)
    explained = 1 - (back - held).square().sum() / (held - held.mean(0)).square().sum()
    assert explained > 0.8
    per_token = len(rows.values) / len(held)
    assert per_token == pytest.approx(4, rel=0.15 if activation == "batchtopk" else 0.05)


class Killed(Exception):
    pass


@pytest.mark.parametrize("activation", ["topk", "batchtopk"])
def test_a_killed_run_ends_in_the_same_bytes(
    activation: str, harvest: Harvest, tmp_path: Path
) -> None:
    config = replace(SMALL, activation=activation, dead_after=2000)

    def stop(turn: int) -> training.Progress:
        def told(done: int, _total: int, _what: str) -> None:
            if done == turn:
                raise Killed

        return told

    whole = train(harvest, config, tmp_path / "whole")
    for turn in (30, 130, 210, 333):
        with pytest.raises(Killed):
            train(harvest, config, tmp_path / "cut", progress=stop(turn))
    seen: list[int] = []
    again = train(harvest, config, tmp_path / "cut", progress=lambda n, *_: seen.append(n))
    assert seen[0] == 301, "it went on from the checkpoint"
    for a, b in zip(whole.weights, again.weights, strict=True):
        assert torch.equal(a, b)
    assert whole.threshold == again.threshold
    one, two = (tmp_path / n / "checkpoint.safetensors" for n in ("whole", "cut"))
    assert one.read_bytes() == two.read_bytes()


def test_the_seed_decides(harvest: Harvest, tmp_path: Path) -> None:
    config = replace(SMALL, n_tokens=5000)
    first = train(harvest, config, tmp_path / "a").weights.dec
    assert torch.equal(first, train(harvest, config, tmp_path / "b").weights.dec)
    other = train(harvest, replace(config, seed=1), tmp_path / "c").weights.dec
    assert not torch.equal(first, other)


def test_each_token_once_an_epoch(harvest: Harvest) -> None:
    config = replace(SMALL, mixed=2)
    steps = sum(harvest.n_tokens[1:]) // config.batch
    batches = list(training.batches(harvest, config, 0, steps, "cpu"))
    seen = torch.cat(batches)
    known = torch.cat([torch.from_numpy(load_shard(s).states).float() for s in harvest.shards[1:]])
    rows = {row.tobytes() for row in known.numpy()}
    assert len(seen) == steps * config.batch
    assert len({row.tobytes() for row in seen.numpy()}) == len(seen), "none twice"
    assert all(row.tobytes() in rows for row in seen.numpy()), "none of the held-out shard"
    late = list(training.batches(harvest, config, 40, steps, "cpu"))
    assert torch.equal(torch.cat(late), torch.cat(batches[40:]))


def test_the_auxiliary_loss_brings_dead_latents_back(
    harvest: Harvest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = training._first

    def half_dead(*given: Any) -> Any:
        state = first(*given)
        state.weights.b_enc[32:] = -6.0
        return state

    monkeypatch.setattr(training, "_first", half_dead)
    dead: list[int] = []
    for weight in (0.0, 1.0):
        config = replace(SMALL, dead_after=3000, aux_weight=weight, n_tokens=300_000)
        dead.append(train(harvest, config, tmp_path / f"w{weight}").dead)
    assert dead[0] >= 30
    assert dead[1] < dead[0] / 2


def test_what_cannot_be_trained(harvest: Harvest, tmp_path: Path) -> None:
    one = Harvest(harvest.folder, harvest.manifest, harvest.shards[:1], harvest.n_tokens[:1])
    with pytest.raises(InputError, match="at least two shards"):
        train(one, SMALL, tmp_path / "a")
    with pytest.raises(InputError, match="at least one batch"):
        train(harvest, replace(SMALL, batch=50_000, n_tokens=None), tmp_path / "a")
    train(harvest, replace(SMALL, n_tokens=2000), tmp_path / "b")
    with pytest.raises(StaleError, match="of other inputs"):
        train(harvest, replace(SMALL, n_tokens=2000, lr=1e-3), tmp_path / "b")
    checkpoint = tmp_path / "b" / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-5])
    with pytest.raises(InputError, match="is damaged"):
        train(harvest, replace(SMALL, n_tokens=2000), tmp_path / "b")


@pytest.mark.parametrize(
    ("field", "value"),
    [("k", 0), ("k", 99), ("batch", 0), ("lr", 0.0), ("activation", "relu"), ("warmup", 0.9),
     ("n_tokens", 10)],
)  # fmt: skip
def test_settings_are_checked(field: str, value: object) -> None:
    with pytest.raises(InputError, match="expected"):
        replace(SMALL, **{field: value})


def test_a_saved_folder_says_what_it_is(harvest: Harvest, tmp_path: Path) -> None:
    config = replace(SMALL, n_tokens=2000)
    made = train(harvest, config, tmp_path / "work")
    save_dictionary(made, config, harvest.manifest, tmp_path / "out", model_name="owner/name")
    cfg = json.loads((tmp_path / "out" / "cfg.json").read_text())
    assert (cfg["architecture"], cfg["k"], cfg["d_in"], cfg["d_sae"]) == ("topk", 4, D, 64)
    about = cfg["metadata"]
    assert about["hook_name"] == "blocks.1.hook_resid_post"
    assert about["sae_lens_version"].startswith("6.")
    assert (about["model_name"], about["prepend_bos"], about["context_size"]) == (
        "owner/name", True, 16,
    )  # fmt: skip
    read = read_dictionary(tmp_path / "out")
    assert read.info.model_fingerprint == "f"
    assert read.info.template == "raw"
    huge = made._replace(weights=made.weights._replace(b_dec=made.weights.b_dec + 1e6))
    with pytest.raises(InputError, match="b_dec does not fit float16"):
        save_dictionary(huge, config, harvest.manifest, tmp_path / "huge")
