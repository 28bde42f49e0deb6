"""The prompts of the benchmark client: random ids, groups with a shared prefix, or from a file on the node."""

from __future__ import annotations

import argparse
import json
import random
from typing import Any, Dict, List

from .requests import Row

VOCABULARY = 32_000
CHARACTERS_PER_TOKEN = 4
NEEDED_TURNS = 2


def rows_of(arguments: argparse.Namespace) -> List[Row]:
    """Return the prompts; the same seed gives the same ones. Raises what a file that is none raises."""
    name = arguments.dataset_name
    if name.startswith("random"):
        return _random(arguments)
    if name == "generated-shared-prefix":
        return _shared_prefix(arguments)
    if name == "openai":
        return _chats(arguments)
    return _conversations(arguments)


def _random(arguments: argparse.Namespace) -> List[Row]:
    lowest = arguments.random_range_ratio
    return [
        Row(_ids(length), length, _length(arguments.random_output_len, lowest))
        for length in (_length(arguments.random_input_len, lowest) for _ in range(arguments.num_prompts))
    ]


def _shared_prefix(arguments: argparse.Namespace) -> List[Row]:
    rows = []
    for _ in range(arguments.gsp_num_groups):
        prefix = _ids(arguments.gsp_system_prompt_len)
        for _ in range(arguments.gsp_prompts_per_group):
            prompt = prefix + _ids(arguments.gsp_question_len)
            rows.append(Row(prompt, len(prompt), arguments.gsp_output_len))
    random.shuffle(rows)
    return rows


def _conversations(arguments: argparse.Namespace) -> List[Row]:
    with open(arguments.dataset_path, encoding="utf-8") as file:
        text = file.read()
    read: List[Dict[str, Any]]
    if arguments.dataset_name == "sharegpt":
        read = json.loads(text)
    else:
        read = [json.loads(line) for line in text.splitlines() if line]
    turns = [item.get("conversations", item.get("conversation", [])) for item in read]
    rows = []
    for conversation in [turn for turn in turns if len(turn) >= NEEDED_TURNS][: arguments.num_prompts]:
        prompt, answer = (_said(turn) for turn in conversation[:NEEDED_TURNS])
        rows.append(Row(prompt, _tokens(prompt), arguments.sharegpt_output_len or _tokens(answer)))
    return rows


def _chats(arguments: argparse.Namespace) -> List[Row]:
    with open(arguments.dataset_path, encoding="utf-8") as file:
        read = [json.loads(line) for line in file if line.strip()]
    return [
        Row(item["messages"], _tokens(json.dumps(item["messages"])), arguments.sharegpt_output_len or 256)
        for item in read[: arguments.num_prompts]
    ]


def _said(turn: Dict[str, Any]) -> str:
    return str(turn.get("value", turn.get("content", "")))


def _tokens(text: str) -> int:
    return max(len(text) // CHARACTERS_PER_TOKEN, 1)


def _ids(count: int) -> List[int]:
    return [random.randrange(VOCABULARY) for _ in range(count)]  # noqa: S311  it is a prompt


def _length(full: int, lowest: float) -> int:
    return random.randint(max(int(full * lowest), 1), full)  # noqa: S311
