"""thetascope."""
