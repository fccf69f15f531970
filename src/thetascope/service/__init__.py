"""A small read-only HTTP service that says which model to ask (extra `serve`)."""
