"""The bundled study's concept activations: read without torch, reduced as they say."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files as resources
from pathlib import Path

import numpy as np

import thetascope as ts

STUDY = Path(str(resources("thetascope") / "demo" / "study"))


def test_they_are_whole_and_reduced_as_they_say() -> None:
    found = ts.load_concepts(ts.open(STUDY))
    assert (found.n_items, found.n_concepts) == (3352, 8192)
    assert not found.left_out
    assert found.act_max is not None
    assert found.manifest["act_max"]["n_tokens"] > 100_000
    reduced = found.manifest["reduced"]
    maxima = found.maxima().tocoo()
    assert maxima.nnz == reduced["rows"] < reduced["rows_before"]
    least = reduced["least_share_of_act_max"] * found.act_max[maxima.col]
    assert (maxima.data >= 0.999 * least).all()  # float16
    mean, most = found.csr(), found.maxima()
    assert (mean.indptr == most.indptr).all()
    assert (mean.data > 0).all()
    assert (mean.data <= 1.001 * most.data).all(), "a mean above its maximum"
    covered = (maxima.data >= 0.5 * found.act_max[maxima.col]).sum() / found.n_items
    assert 50 < covered < 500, covered
    one = found.of_concept(4000)
    assert np.array_equal(one.items, np.unique(maxima.row[maxima.col == 4000]))
    assert not (found.folder / "contexts.parquet").exists(), "no text is bundled"


def test_they_are_of_the_bundled_dictionary() -> None:
    from thetascope.study import files

    found = ts.load_concepts(ts.open(STUDY))
    bundled = Path(str(resources("thetascope") / "concepts" / "bundled"))
    folder = bundled / found.manifest["dictionary"]["name"]
    parts = [files.hash_file(folder / n) for n in ("sae_weights.safetensors", "cfg.json")]
    assert found.manifest["dictionary"]["fingerprint"] == files.hash_json(parts)


def test_they_are_read_without_torch() -> None:
    code = (
        "import sys\nimport thetascope as ts\n"
        f"found = ts.load_concepts(ts.open({str(STUDY)!r}))\n"
        "print(found.csr().shape, len(found.of_item(found.item_ids[0]).concepts) > 0)\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "(3352, 8192) True\n"
