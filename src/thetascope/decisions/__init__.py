"""Onboard a model, choose its next items, make tiny sets, complete a leaderboard."""

from thetascope.decisions.adaptive import AdaptiveTest, Target
from thetascope.decisions.bank import ItemBank
from thetascope.decisions.build import make_bank
from thetascope.decisions.leaderboard import Standing, leaderboard
from thetascope.decisions.onboarding import Onboarded, onboard
from thetascope.decisions.saved import load_test, save_test, study_bank
from thetascope.decisions.scores import ScoreEstimate
from thetascope.decisions.tiny import TinySet, tiny_set

__all__ = [
    "AdaptiveTest",
    "ItemBank",
    "Onboarded",
    "ScoreEstimate",
    "Standing",
    "Target",
    "TinySet",
    "leaderboard",
    "load_test",
    "make_bank",
    "onboard",
    "save_test",
    "study_bank",
    "tiny_set",
]
