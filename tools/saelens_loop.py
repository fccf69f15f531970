"""Concept means by a plain sae-lens loop, timed: run by benchmarks/concepts_extract.

    python tools/saelens_loop.py MODEL_FOLDER DICTIONARY_FOLDER PREFIX_ID TEXTS.json OUT.npy [body]

What a user of sae-lens writes: one text after the other, float32, the whole causal model is run,
the hidden states of all blocks are kept, the dictionary encodes densely, and the text's own
tokens are averaged. `body` times it without the output layer over the vocabulary too. One thread.
Writes the (n, concepts) means and prints one JSON object: CPU seconds of either, without loading.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch


def main() -> None:
    """Times the loop after one text for warming up."""
    model_folder, dictionary_folder, prefix, file, out = sys.argv[1:6]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    from sae_lens import SAE
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()
    sae = SAE.load_from_disk(dictionary_folder, device="cpu", dtype="float32")
    layer = int(json.loads((Path(dictionary_folder) / "cfg.json").read_text())["metadata"][
        "hook_name"].split(".")[1])  # fmt: skip
    texts: list[str] = json.loads(Path(file).read_text())

    def mean(network: torch.nn.Module, text: str) -> torch.Tensor:
        ids = [int(prefix), *tokenizer(text, add_special_tokens=False)["input_ids"]]
        with torch.no_grad():
            made = network(torch.tensor([ids]), output_hidden_states=True)
            return sae.encode(made.hidden_states[layer + 1])[0, 1:].mean(0)

    taken: dict[str, float] = {}
    networks = {"body": model.base_model, "whole": model}
    for name in ("body", "whole") if sys.argv[6:] else ("whole",):
        network = networks[name]
        mean(network, texts[0])
        start = time.process_time()
        means = [mean(network, text).numpy() for text in texts]
        taken[name] = time.process_time() - start
        np.save(out, np.stack(means))
    sys.stdout.write(json.dumps(taken) + "\n")


if __name__ == "__main__":
    main()
