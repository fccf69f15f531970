"""The bundled real study and the whole pass on it."""

from thetascope.demo.demo import Found, bundled_study, run_demo

__all__ = ["Found", "bundled_study", "run_demo"]
