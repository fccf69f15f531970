"""Slow measurements: `make bench`, or `python -m benchmarks NAME ...` for some of them."""
