"""From a format's tensors to a checked dictionary: shapes, finite numbers, folded scalings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from thetascope.concepts.dictionary import (
    Activation,
    Dictionary,
    DictionaryInfo,
    DictionaryWeights,
    Normalise,
)
from thetascope.concepts.hook import Hook, parse_hook
from thetascope.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Overrides:
    """What the user or a catalogue says about a dictionary; it wins over what the files say.

    Attributes:
        model: The language model.
        hook: Where in the model, as `hook.parse_hook` takes it.
        norm_factor: What hidden states are multiplied by first: sqrt(d) / their mean length.
        normalise: What is done to each hidden state first.
        k: Active latents a token, for topk.
        layer: The block, for files that do not say it; its output is meant.
    """

    model: str | None = None
    hook: str | None = None
    norm_factor: float | None = None
    normalise: Normalise | None = None
    k: int | None = None
    layer: int | None = None


@dataclass(frozen=True)
class Draft:
    """A dictionary as a reader found it.

    Attributes:
        activation: Which latents are active.
        tensors: W_enc (d_in, n), b_enc, W_dec (n, d_in), b_dec; threshold (a scalar or (n,)),
            r_mag, b_mag where the activation has them.
        file: The weights' file, for messages.
        k: For topk.
        normalise: What is done to each hidden state first.
        subtract_b_dec: Whether the decoder's bias is taken off the input.
        scale: Multiplies hidden states before anything else; folded into the weights.
        scaled_by_decoder: Whether pre-activations are multiplied by their decoder row's length
            (and activations divided by it before decoding); folded into the weights.
        model: The language model.
        hook: Its place, in any spelling of `hook.parse_hook`.
        prefix: Whether a prefix token stood in front.
        context_size: Tokens in a training text.
        source: The format's name.
        width: Latents according to the settings, checked against the tensors.
        d_in: Width of the hidden states according to the settings, checked likewise.
        model_fingerprint: See `DictionaryInfo`.
        template: See `DictionaryInfo`.
    """

    activation: Activation
    tensors: dict[str, Tensor]
    file: Path
    source: str
    k: int | None = None
    normalise: Normalise = "none"
    subtract_b_dec: bool = False
    scale: float = 1.0
    scaled_by_decoder: bool = False
    model: str | None = None
    hook: str | None = None
    prefix: bool | None = None
    context_size: int | None = None
    width: int | None = None
    d_in: int | None = None
    model_fingerprint: str | None = None
    template: str | None = None


def build(
    draft: Draft, given: Overrides, *, dtype: str, device: str, fingerprint: str
) -> Dictionary:
    """Returns the dictionary of a draft, its scalings folded into the weights.

    Folding is exact in real numbers: a factor s on the input becomes W_enc s, W_dec / s,
    b_dec / s; a factor |W_dec| on pre-activations becomes W_enc |W_dec|, b_enc |W_dec|,
    W_dec / |W_dec| (SAELens does the same when it saves for inference).

    Raises:
        InputError: Tensors are missing, do not fit each other or the settings, or are not finite.
    """
    import torch

    draft = replace(
        draft,
        model=given.model or draft.model,
        hook=given.hook or draft.hook or (None if given.layer is None else str(given.layer)),
        normalise=given.normalise or draft.normalise,
        k=given.k or draft.k,
    )
    tensors = {k: v.detach().float() for k, v in draft.tensors.items()}
    d_in, n = _check(draft, tensors)
    if draft.scale != 1.0:
        tensors["W_enc"] = tensors["W_enc"] * draft.scale
        tensors["W_dec"] = tensors["W_dec"] / draft.scale
        tensors["b_dec"] = tensors["b_dec"] / draft.scale
    if draft.scaled_by_decoder:
        norms = tensors["W_dec"].norm(dim=1).clamp(min=1e-8)
        tensors["W_enc"], tensors["b_enc"] = tensors["W_enc"] * norms, tensors["b_enc"] * norms
        tensors["W_dec"] = tensors["W_dec"] / norms[:, None]
    kept = {
        name: tensors[name].to(device, getattr(torch, dtype)).contiguous()
        for name in DictionaryWeights._fields
        if name in tensors
    }
    info = DictionaryInfo(
        activation=draft.activation, d_in=d_in, n_latents=n, k=draft.k,
        normalise=draft.normalise, subtract_b_dec=draft.subtract_b_dec, model=draft.model,
        hook=_hook(draft), prefix=draft.prefix, context_size=draft.context_size,
        source=f"{draft.source}: {draft.file}", fingerprint=fingerprint,
        model_fingerprint=draft.model_fingerprint, template=draft.template,
    )  # fmt: skip
    return Dictionary(info, DictionaryWeights(**kept))


def transposed(tensors: dict[str, Tensor], **names: str) -> dict[str, Tensor]:
    """Returns tensors under our names; "*T" turns a matrix round.

    Args:
        tensors: As the file names them.
        names: Our name = the file's name, with " T" behind it where it lies the other way.
    """
    out: dict[str, Tensor] = {}
    for ours, theirs in names.items():
        name, _, turn = theirs.partition(" ")
        if name in tensors:
            out[ours] = tensors[name].T if turn else tensors[name]
    return out


def _check(draft: Draft, tensors: dict[str, Tensor]) -> tuple[int, int]:
    import torch

    extra = {"jumprelu": ["threshold"], "gated": ["r_mag", "b_mag"]}.get(draft.activation, [])
    missing = [t for t in ("W_enc", "b_enc", "W_dec", "b_dec", *extra) if t not in tensors]
    if missing:
        raise InputError(
            f"a {draft.activation} dictionary needs {', '.join(missing)}, which is not there",
            file=draft.file,
        )
    if tensors["W_enc"].ndim != 2:
        raise InputError("W_enc is not a matrix", file=draft.file)
    d_in, n = tensors["W_enc"].shape
    for said, found, what in ((draft.d_in, d_in, "width"), (draft.width, n, "number of latents")):
        if said is not None and said != found:
            raise InputError(f"the settings say {what} {said}, W_enc has {found}", file=draft.file)
    if "threshold" in tensors and tensors["threshold"].numel() == 1:
        tensors["threshold"] = torch.full((n,), float(tensors["threshold"]))
    shapes = {
        "b_enc": (n,), "W_dec": (n, d_in), "b_dec": (d_in,),
        "threshold": (n,), "r_mag": (n,), "b_mag": (n,),
    }  # fmt: skip
    for name, shape in shapes.items():
        if name in tensors and tuple(tensors[name].shape) != shape:
            raise InputError(
                f"{name} has shape {tuple(tensors[name].shape)}, expected {shape}", file=draft.file
            )
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(f"{name} holds numbers that are not finite", file=draft.file)
    if draft.activation == "topk" and not (draft.k and 0 < draft.k <= n):
        raise InputError(f"k is {draft.k}, expected 1 to {n}", file=draft.file, field="k")
    if not (draft.scale > 0 and draft.scale < float("inf")):
        raise InputError(f"the normalisation factor is {draft.scale}", file=draft.file)
    return d_in, n


def _hook(draft: Draft) -> Hook | None:
    if draft.hook is None:
        return None
    try:
        return parse_hook(draft.hook)
    except InputError:
        raise InputError(
            f"hooks {draft.hook!r}; only the residual stream at a block's input or output is read",
            file=draft.file,
        ) from None
