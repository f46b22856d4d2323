"""The table of architectures: how each is built and what its tensors are called in checkpoints."""

from sie_mcp.adapters.model import Architecture, Head
from sie_mcp.adapters.models.bert import (
    Bert,
    MaskedLanguageHead,
    PooledClassifier,
    TokenClassifier,
)
from sie_mcp.adapters.models.static import Static

_BERT_LAYER = r"encoder\.layer\.(\d+)\."
_BERT_RENAMES = (
    (r"embeddings\.word_embeddings\.(.*)", r"embeddings.word.\1"),
    (r"embeddings\.position_embeddings\.(.*)", r"embeddings.position.\1"),
    (r"embeddings\.token_type_embeddings\.(.*)", r"embeddings.token_type.\1"),
    (r"embeddings\.LayerNorm\.(.*)", r"embeddings.norm.\1"),
    (_BERT_LAYER + r"attention\.self\.query\.(.*)", r"layers.\1.qkv.\2#0"),
    (_BERT_LAYER + r"attention\.self\.key\.(.*)", r"layers.\1.qkv.\2#1"),
    (_BERT_LAYER + r"attention\.self\.value\.(.*)", r"layers.\1.qkv.\2#2"),
    (_BERT_LAYER + r"attention\.output\.dense\.(.*)", r"layers.\1.out.\2"),
    (_BERT_LAYER + r"attention\.output\.LayerNorm\.(.*)", r"layers.\1.attention_norm.\2"),
    (_BERT_LAYER + r"intermediate\.dense\.(.*)", r"layers.\1.up.\2"),
    (_BERT_LAYER + r"output\.dense\.(.*)", r"layers.\1.down.\2"),
    (_BERT_LAYER + r"output\.LayerNorm\.(.*)", r"layers.\1.mlp_norm.\2"),
)
_BERT_HEADS = {
    "sparse": Head(
        build=lambda config, _: MaskedLanguageHead(config),
        renames=(
            (r"cls\.predictions\.transform\.dense\.(.*)", r"transform.\1"),
            (r"cls\.predictions\.transform\.LayerNorm\.(.*)", r"norm.\1"),
            (r"cls\.predictions\.(?:decoder\.)?bias", r"decoder.bias"),
            (r"cls\.predictions\.decoder\.weight", r"decoder.weight"),
        ),
        tied={"decoder.weight": "encoder.embeddings.word.weight"},
    ),
    "cross_encoder": Head(
        build=PooledClassifier,
        renames=(
            (r"(?:bert\.)?pooler\.dense\.(.*)", r"dense.\1"),
            (r"classifier\.(.*)", r"classifier.\1"),
        ),
    ),
    "token_classification": Head(build=TokenClassifier, renames=((r"classifier\.(.*)", r"\1"),)),
}

ARCHITECTURES: dict[str, Architecture] = {
    "bert": Architecture(
        build=Bert,
        renames=_BERT_RENAMES,
        prefixes=("bert.", "0.auto_model.", "model.0.auto_model.", "auto_model."),
        ignored=(r".*position_ids", r"pooler\..*", r"cls\..*", r"classifier\..*"),
        heads=_BERT_HEADS,
    ),
    "static": Architecture(
        build=Static,
        renames=(
            (r"embeddings?(?:\.weight)?", r"table.weight"),
            (r"weights", r"weight"),
            (r"mapping", r"mapping"),
        ),
        prefixes=("0.",),
    ),
}
