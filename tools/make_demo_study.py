"""Makes the bundled study from the real results kept beside the repository.

    python tools/make_demo_study.py ../shared/data/zeroeval src/thetascope/demo/study

Figures only: scores, ids, names of benchmarks and subjects, text hashes, token counts and text
vectors (float16). Questions and reference answers stay where they are.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from thetascope.encoders import encode_study
from thetascope.encoders.vectors import read_keys
from thetascope.readers import read
from thetascope.study import Study, files, store

KEPT = ["item_id", "source_id", "benchmark", "subject", "text_hash", "n_tokens"]


def main(source: Path, target: Path) -> None:
    """Builds the study in a temporary folder, then puts its figures into `target`."""
    with tempfile.TemporaryDirectory() as scratch:
        whole = read(source).save(Path(scratch) / "whole")
        assert whole.path is not None
        vectors = encode_study(whole.path, "offline").folder
        tokens = read_keys(vectors, "text_hash").select("text_hash", "n_tokens")
        items = whole.items.join(tokens, on="text_hash", how="left", maintain_order="left")
        if target.exists():
            shutil.rmtree(target)
        figures = Study.from_tables(
            whole.responses, items.select(KEPT), whole.models, whole.runs, policy=whole.policy
        )
        figures.save(target)
        with store.writing(target) as writer:
            place = target / "vectors"
            place.mkdir()
            work = Path(shutil.copytree(vectors, place / ".work"))
            halve(work / "vectors.safetensors")
            (work / "run.json").unlink(missing_ok=True)
            final = place / f"offline-{files.hash_folder(work)}"
            os.replace(work, final)
            writer.point_to("vectors", "offline", final)
            writer.index.imports.append(whole.report.to_json() if whole.report else {})
            writer.commit()
        (target / ".lock").unlink(missing_ok=True)


def halve(file: Path) -> None:
    """Rewrites a file of float32 vectors as float16."""
    save_file({"vectors": load_file(file)["vectors"].astype(np.float16)}, file)
    file.chmod(0o644)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
