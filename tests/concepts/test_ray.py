"""Shards made by a local Ray cluster of several nodes, one of which is killed: the same files."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest
from tests.concepts.extract_cases import contents, save_dictionary, save_study, some_texts

import thetascope as ts
from thetascope.cli import main
from thetascope.concepts.extract import extract
from thetascope.concepts.extraction import open_extraction
from thetascope.concepts.store import load_concepts

ray = pytest.importorskip("ray", reason="ray is not installed (pip install 'thetascope[ray]')")


@pytest.mark.timeout(280)
def test_a_node_that_dies_changes_nothing(tiny_llama: Path, tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    from thetascope.concepts.ray_shards import make_shards_with_ray

    texts: list[str | None] = [*some_texts(3000, longest=100)]
    calm = save_study(tmp_path / "calm", texts)
    shared = Path(shutil.copytree(calm, tmp_path / "shared"))
    dictionary = save_dictionary(tmp_path / "dictionary")
    how = {"model": str(tiny_llama), "settings": {"device": "cpu", "batch_tokens": 1024},
           "dictionary": dictionary, "name": "c"}  # fmt: skip
    whole = extract(calm, **how)  # type: ignore[arg-type]
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        job, _ = open_extraction(shared, **how)  # type: ignore[arg-type]
        killed: list[int] = []

        def kill() -> None:
            folder = job.work / "shards"
            while not (made := len(list(folder.glob("shard-*")))):
                time.sleep(0.02)
            killed.append(made)
            cluster.remove_node(nodes[0], allow_graceful=False)

        killer = threading.Thread(target=kill)
        killer.start()
        made, rate = make_shards_with_ray(job, dictionary)
        assert made == len(job.plan.shards) > 8
        assert rate > 0
        killer.join()
        assert killed[0] < len(job.plan.shards), "the node was killed amid the work"
    finally:
        ray.shutdown()
        cluster.shutdown()
    joined = extract(shared, **how)  # type: ignore[arg-type]
    assert joined.n_made == 0
    assert joined.folder.name == whole.folder.name
    assert contents(joined.folder) == contents(whole.folder)


@pytest.mark.timeout(200)
def test_the_command_joins_a_cluster_or_starts_one(
    tiny_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calm = save_study(tmp_path / "calm", [*some_texts(300)])
    shared = Path(shutil.copytree(calm, tmp_path / "shared"))
    words = ["--model", str(tiny_llama), "--dictionary", str(save_dictionary(tmp_path / "d")),
             "--device", "cpu", "--batch-tokens", "512"]  # fmt: skip
    assert main(["concepts", "extract", str(calm), *words]) == 0
    assert main(["concepts", "extract", str(shared), *words, "--ray", "127.0.0.1:1"]) == 2
    assert "no Ray cluster at '127.0.0.1:1'" in capsys.readouterr().err
    assert main(["concepts", "extract", str(shared), *words, "--ray", "local"]) == 0
    assert not ray.is_initialized(), "what was started is stopped"
    one, other = (load_concepts(ts.open(folder)) for folder in (calm, shared))
    assert contents(one.folder) == contents(other.folder)
