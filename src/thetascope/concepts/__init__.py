"""Language model + dictionary (SAE) -> concept activations; dictionaries and their training.

Importing this room loads no torch; running a language model or a dictionary does.
"""
