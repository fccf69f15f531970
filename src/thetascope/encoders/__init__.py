"""Text -> vectors, cached by content; vectors made elsewhere; reading both back.

Importing this room loads no torch; encoding does.
"""

from thetascope.encoders.config import PRESETS, EncoderConfig, Preset
from thetascope.encoders.encode import EncodeResult, encode_study
from thetascope.encoders.encoder import Encoder, Progress, encode_texts, encoder_for
from thetascope.encoders.foreign import ImportResult, import_vectors
from thetascope.encoders.vectors import StudyVectors, load_vectors

__all__ = [
    "PRESETS",
    "EncodeResult",
    "Encoder",
    "EncoderConfig",
    "ImportResult",
    "Preset",
    "Progress",
    "StudyVectors",
    "encode_study",
    "encode_texts",
    "encoder_for",
    "import_vectors",
    "load_vectors",
]
