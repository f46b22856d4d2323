"""CLIP's tokenizer out of vocab.json and merges.txt, for checkpoints older than tokenizer.json.

Source: Radford et al. 2021; the same parts as transformers' CLIPTokenizer puts together.
"""

import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

_START, _END = "<|startoftext|>", "<|endoftext|>"
# Contractions, runs of letters, single digits, runs of anything else but white space.
_PIECES = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d"
    r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)


def read_clip_tokenizer(folder: Path) -> Tokenizer | None:
    """Return the tokenizer; None where the folder has no such files, or another family's.

    Raises:
        Exception: whatever the tokenizers library raises for files that it cannot read.
    """
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    if not (vocabulary.is_file() and merges.is_file()):
        return None
    ids = json.loads(vocabulary.read_text("utf-8"))
    if not {_START, _END} <= set(ids):
        return None
    tokenizer = Tokenizer(
        models.BPE.from_file(
            str(vocabulary),
            str(merges),
            continuing_subword_prefix="",
            end_of_word_suffix="</w>",
            unk_token=_END,
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    pieces = pre_tokenizers.Split(Regex(_PIECES), behavior="removed", invert=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pieces, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.post_processor = processors.RobertaProcessing(
        (_END, ids[_END]), (_START, ids[_START]), trim_offsets=False, add_prefix_space=False
    )
    tokenizer.add_special_tokens([_START, _END])
    return tokenizer
