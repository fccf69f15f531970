"""Item and model parameters by py-irt (1PL and 2PL, variational), as golden figures.

    python tools/make_parity_pyirt.py OUT.json

Simulated as for girth (`make_parity_girth.py`), from seeds; run by `make parity`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from make_parity_girth import simulate

CASES = ((200, 150, 1.0, 21),)
"""Items, models, share observed, seed."""
EPOCHS = 4000


def main() -> None:
    """Writes the golden figures."""
    from py_irt.config import IrtConfig
    from py_irt.dataset import Dataset
    from py_irt.training import IrtModelTrainer

    out = []
    for n, m, share, seed in CASES:
        given = simulate(n, m, share, seed)
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "responses.jsonlines"
            lines = [
                json.dumps(
                    {
                        "subject_id": f"m{i:04}",
                        "responses": {f"q{j:04}": int(given[j, i]) for j in range(n)},
                    }
                )
                for i in range(m)
            ]
            file.write_text("\n".join(lines) + "\n", "utf-8")
            data = Dataset.from_jsonlines(str(file))
            for kind in ("1pl", "2pl"):
                config = IrtConfig(model_type=kind, epochs=EPOCHS, priors="hierarchical", seed=0)
                trainer = IrtModelTrainer(config=config, data_path=file, dataset=data)
                trainer.train(device="cpu")
                found = trainer.irt_model.export()
                items = [int(data.ix_to_item_id[k][1:]) for k in range(n)]
                models = [int(data.ix_to_subject_id[k][1:]) for k in range(m)]
                entry = {"model": kind, "n": n, "m": m, "share": share, "seed": seed}
                for name, order in (("diff", items), ("disc", items), ("ability", models)):
                    if name in found:
                        entry[name] = np.round(
                            np.asarray(found[name])[np.argsort(order)], 5
                        ).tolist()
                out.append(entry)
    Path(sys.argv[1]).write_text(json.dumps(out, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
