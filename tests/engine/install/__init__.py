"""The recipe for the real SGLang on a machine without a GPU."""
