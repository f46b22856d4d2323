"""The table of architectures, by the model_type of config.json; each family's file has its row."""

from sie_mcp.adapters.model import Architecture
from sie_mcp.adapters.models import (
    bert,
    clip_text,
    deberta,
    decoders,
    distilbert,
    electra,
    eurobert,
    gemma,
    gemma3,
    gte,
    jina_bert,
    jina_v3,
    modernbert,
    mpnet,
    nomicbert,
    roberta,
    siglip_text,
    static,
    t5,
)

ARCHITECTURES: dict[str, Architecture] = {
    "bert": bert.ARCHITECTURE,
    "camembert": roberta.ARCHITECTURE,
    "clip": clip_text.ARCHITECTURE,
    "clip_text_model": clip_text.ARCHITECTURE,
    "deberta-v2": deberta.ARCHITECTURE,
    "distilbert": distilbert.ARCHITECTURE,
    "electra": electra.ARCHITECTURE,
    "eurobert": eurobert.ARCHITECTURE,
    "gemma": gemma.GEMMA,
    "gemma2": gemma.GEMMA2,
    "gemma3_text": gemma3.ARCHITECTURE,
    "gte": gte.GTE,
    "jina_bert": jina_bert.ARCHITECTURE,
    "jina_embeddings_v3": jina_v3.ARCHITECTURE,
    "llama": decoders.LLAMA,
    "llama_bidirec": decoders.LLAMA_BIDIRECTIONAL,
    "mistral": decoders.MISTRAL,
    "modernbert": modernbert.ARCHITECTURE,
    "mpnet": mpnet.ARCHITECTURE,
    "new": gte.NEW,
    "nomic_bert": nomicbert.ARCHITECTURE,
    "qwen2": decoders.QWEN2,
    "qwen3": decoders.QWEN3,
    "roberta": roberta.ARCHITECTURE,
    "siglip": siglip_text.ARCHITECTURE,
    "siglip2": siglip_text.ARCHITECTURE2,
    "siglip2_text_model": siglip_text.ARCHITECTURE,
    "siglip_text_model": siglip_text.ARCHITECTURE,
    "static": static.ARCHITECTURE,
    "t5": t5.ARCHITECTURE,
    "xlm-roberta": roberta.ARCHITECTURE,
}

# Where other code than transformers' borrows a model_type: its positions tell which family it is.
BY_POSITIONS: dict[tuple[str, str], str] = {
    ("bert", "alibi"): "jina_bert",
    ("xlm-roberta", "rotary"): "jina_embeddings_v3",
}
