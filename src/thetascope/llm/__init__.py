"""A language model behind an OpenAI-compatible endpoint: asked, checked, paid for.

`endpoint` keeps answers and asks once, `sending` retries what may pass, `structured` takes JSON
and refuses what does not fit, `cost` says what sending takes and sends nothing without a yes.
"""

from thetascope.llm.cost import Plan, Prices, consent, n_tokens, plan_of
from thetascope.llm.endpoint import Endpoint, answers_folder
from thetascope.llm.sending import HalfAnswer, Refused
from thetascope.llm.structured import InvalidAnswer, ask_json

__all__ = [
    "Endpoint",
    "HalfAnswer",
    "InvalidAnswer",
    "Plan",
    "Prices",
    "Refused",
    "answers_folder",
    "ask_json",
    "consent",
    "n_tokens",
    "plan_of",
]
