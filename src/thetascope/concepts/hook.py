"""Where in a language model a residual stream is read: the input or the output of one block.

Blocks are counted from 0. The output of block L is what transformers calls
`hidden_states[L + 1]` (but for the last block, whose entry there is after the final norm), what
SAELens and TransformerLens call `blocks.L.hook_resid_post`, and what sparsify calls `layers.L`.
The input of block L is `hidden_states[L]` and `blocks.L.hook_resid_pre`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from thetascope.errors import InputError

Site = Literal["input", "output"]

_PATTERNS: tuple[tuple[str, Site], ...] = (
    (r"(\d+)", "output"),
    (r"(\d+)[.:]output", "output"),
    (r"(\d+)[.:]input", "input"),
    (r"blocks\.(\d+)\.hook_resid_post", "output"),
    (r"blocks\.(\d+)\.hook_resid_pre", "input"),
    (r"(?:model\.|transformer\.|encoder\.|gpt_neox\.)*(?:layers?|h)\.(\d+)", "output"),
)


@dataclass(frozen=True)
class Hook:
    """A place in the residual stream.

    Attributes:
        layer: The block, counted from 0.
        site: "input" (before the block) or "output" (after it).
    """

    layer: int
    site: Site = "output"

    def __str__(self) -> str:
        return f"{self.layer}.{self.site}"

    @property
    def saelens(self) -> str:
        """The place's name in SAELens and TransformerLens."""
        return f"blocks.{self.layer}.hook_resid_{'post' if self.site == 'output' else 'pre'}"


def parse_hook(text: str) -> Hook:
    """Returns the hook that a name means.

    Understood are "14" (the output of block 14), "14.input", "14.output", SAELens' names
    "blocks.14.hook_resid_post" and "..._pre", and module paths such as "model.layers.14" (its
    output).

    Raises:
        InputError: The name means no place in a residual stream.
    """
    for pattern, site in _PATTERNS:
        if found := re.fullmatch(pattern, text.strip()):
            return Hook(int(found.group(1)), site)
    raise InputError(
        "expected a place in the residual stream like 14, 14.input, blocks.14.hook_resid_post"
        f" or layers.14, found {text!r}",
        field="hook",
    )
