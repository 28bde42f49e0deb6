"""Writes a tiny random Llama and its tokenizer into a folder; the engine's Python runs it with the folder's path."""

import json
import sys
from pathlib import Path

import torch  # type: ignore[import-not-found, unused-ignore]
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # type: ignore[import-not-found, unused-ignore]
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast  # type: ignore[import-not-found, unused-ignore]

SENTENCE = "hello world the quick brown fox jumps over the lazy dog"
CHAT_TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"


def main() -> None:
    """Write model and tokenizer; the same seed gives the same weights."""
    folder = Path(sys.argv[1])
    tokenizer = _byte_level_tokenizer()
    ends = {"bos_token": "<s>", "eos_token": "</s>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **ends)
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    _name_the_class_for_every_release(folder / "tokenizer_config.json")
    torch.manual_seed(0)
    LlamaForCausalLM(_config(tokenizer.get_vocab_size())).to(torch.bfloat16).save_pretrained(folder)


def _byte_level_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=512, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([SENTENCE] * 100, trainer)
    return tokenizer


def _config(vocabulary: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
    )


def _name_the_class_for_every_release(file: Path) -> None:
    """Write the class name that transformers 4 and 5 both know; 5 saves one that 4 does not."""
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "tokenizer_class": "PreTrainedTokenizerFast"}, indent=2))


if __name__ == "__main__":
    main()
