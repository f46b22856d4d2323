"""The table of architectures, by the model_type of config.json; each family's file has its row."""

from sie_mcp.adapters.model import Architecture
from sie_mcp.adapters.models import (
    bert,
    deberta,
    decoders,
    distilbert,
    electra,
    eurobert,
    gemma,
    gemma3,
    modernbert,
    mpnet,
    nomicbert,
    roberta,
    static,
    t5,
)

ARCHITECTURES: dict[str, Architecture] = {
    "bert": bert.ARCHITECTURE,
    "camembert": roberta.ARCHITECTURE,
    "deberta-v2": deberta.ARCHITECTURE,
    "distilbert": distilbert.ARCHITECTURE,
    "electra": electra.ARCHITECTURE,
    "eurobert": eurobert.ARCHITECTURE,
    "gemma": gemma.GEMMA,
    "gemma2": gemma.GEMMA2,
    "gemma3_text": gemma3.ARCHITECTURE,
    "llama": decoders.LLAMA,
    "llama_bidirec": decoders.LLAMA_BIDIRECTIONAL,
    "mistral": decoders.MISTRAL,
    "modernbert": modernbert.ARCHITECTURE,
    "mpnet": mpnet.ARCHITECTURE,
    "nomic_bert": nomicbert.ARCHITECTURE,
    "qwen2": decoders.QWEN2,
    "qwen3": decoders.QWEN3,
    "roberta": roberta.ARCHITECTURE,
    "static": static.ARCHITECTURE,
    "t5": t5.ARCHITECTURE,
    "xlm-roberta": roberta.ARCHITECTURE,
}
