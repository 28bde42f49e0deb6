"""Stands in for SGLang on a simulated node: same command line, log texts, answers and exit codes; no model.

The folder is linked as the package `sglang` into a generated environment; its modules name each other relatively.
"""
