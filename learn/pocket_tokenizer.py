"""The pocket policies' tokenizers: bytes, a world's words, small numbers and the fixed phrases of the terse style.

Invariant: every text round-trips (all 256 bytes are tokens); a word of the world is one token; what stands between
them is a phrase, and the most useful phrases are one token. There are no merges, so a text has one encoding and the
vocabulary no entry that is never produced by it.

Run: ``build_tokenizer(texts, words=..., piece=...)``; texts are message contents of scripted trees.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

PAD, SYSTEM, USER, ASSISTANT, END = CONTROL = ("<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
VOCABULARY = 512
NUMBERS = tuple(str(n) for n in range(10, 21))
WEIGHTS = (*(f"0.{n}" for n in range(1, 10)), "0.25", "0.35")
DIGITS = r"0\.\d+|\d+|\n|\},\{|> "
"""What is a piece in every world, as a pattern."""
TEMPLATE = (
    "{%- for message in messages -%}\n"
    "{{- '<|' + message.role + '|>' + message.content -}}\n"
    "{%- if message.role == 'assistant' -%}{{- '<|end|>' -}}{%- endif -%}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}\n"
)


def build_tokenizer(
    texts: Iterable[str], *, words: Sequence[str], piece: re.Pattern[str], size: int = VOCABULARY
) -> Tokenizer:
    """A tokenizer of at most `size` entries: bytes, `words`, and the phrases of `texts` that save most tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*CONTROL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in CONTROL])
    phrases = best_phrases(texts, size - tokenizer.get_vocab_size() - len(words), piece=piece)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in [*words, *phrases]])
    return tokenizer


def best_phrases(texts: Iterable[str], count: int, *, piece: re.Pattern[str]) -> list[str]:
    """The `count` texts between pieces (items, numbers) that save most tokens."""
    found: Counter[str] = Counter()
    for text in texts:
        last = 0
        for match in piece.finditer(text):
            found[text[last : match.start()]] += 1
            last = match.end()
        found[text[last:]] += 1
    saved = {text: n * (len(text.encode()) - 1) for text, n in found.items() if len(text) > 1}
    return sorted(saved, key=lambda text: (-saved[text], text))[:count]


def save_tokenizer(tokenizer: Tokenizer, directory: Path, *, context: int = 1024) -> None:
    """tokenizer.json, tokenizer_config.json and chat_template.jinja, readable by transformers and vLLM."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    (directory / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
