"""GLiNER checkpoints: gliner_config.json, the encoder that it names, and the tokenizers.

Source: config.py, model.py and data_processing of the gliner package, and what real files hold:
older ones name their encoder and leave its settings, its tokenizer and the vocabulary's size out.
"""

from pathlib import Path
from typing import Any

from sie_mcp.adapters.checkpoint.backbones import read_backbone, read_encoder, said_length
from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.checkpoint.gliner_settings import CONFIG, check_settings
from sie_mcp.adapters.checkpoint.lengths import position_limit
from sie_mcp.adapters.gliner.architecture import ENCODER, LABEL_ENCODER, TASK
from sie_mcp.adapters.gliner.rule import GlinerRule, LabelEncoder, RelationRule
from sie_mcp.adapters.models.architectures import ARCHITECTURES
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.errors import ModelLoadFailed

_LABEL_TOKENIZER = "labels_tokenizer"
_FLERT = "[FLERT]"
# Two encoders: labels cost a text nothing, and a row of scores this much.
_LABELS_OF_TWO_ENCODERS = 128


def read_gliner(name: str, files: Files, tokenizer_folder: Path | None) -> Recipe:
    """Read a folder with a gliner_config.json.

    Args:
        name: What the caller asked for.
        files: The folder.
        tokenizer_folder: Where the tokenizer lies that the folder lacks.

    Raises:
        ModelLoadFailed: a setting, an encoder or a tokenizer that is not served.
    """
    settings = files.read(CONFIG)
    check_settings(settings)
    two = settings.get("labels_encoder") is not None
    # Of two encoders it is the labels' whose tokenizer lies elsewhere.
    elsewhere = None if two else tokenizer_folder
    backbone = read_backbone(name, files, settings, elsewhere, task=TASK)
    labels = _labels(name, files, settings, tokenizer_folder) if two else None
    rule = _rule(settings, labels, has_tokenizer=backbone.tokenizer_folder == files.folder)
    files.decide("span_mode", rule.span_mode, CONFIG)
    if rule.relations is not None:
        files.decide("relations", rule.relations.triple or rule.relations.adjacency, CONFIG)
    return Recipe(
        name=name,
        folder=files.folder,
        architecture=backbone.architecture,
        config=backbone.config,
        tasks=(TASK,),
        max_length=backbone.max_length,
        tensor_prefix=ENCODER,
        gliner=rule,
        tokenizer_folder=backbone.tokenizer_folder,
    )


def _rule(
    settings: dict[str, Any], label_encoder: LabelEncoder | None, *, has_tokenizer: bool
) -> GlinerRule:
    mode = str(settings.get("span_mode", "markerV0")).replace("token-level", "token_level")
    ent, sep = settings.get("ent_token", "<<ENT>>"), settings.get("sep_token", "<<SEP>>")
    index = settings.get("class_token_index", -1)
    is_given = index != -1 and settings.get("vocab_size", -1) != -1
    # Only its own tokenizer can hold the tokens that training added.
    adds = label_encoder is None and not (is_given and has_tokenizer)
    max_labels = max(int(settings.get("max_types", 25)), 25)
    relations = _relations(settings, is_given=is_given)
    added = (_FLERT, str(ent), str(sep))
    if relations is not None:
        added = (str(ent), str(sep), relations.token)
    return GlinerRule(
        hidden_size=int(settings.get("hidden_size", 512)),
        span_mode=mode,  # type: ignore[arg-type]
        max_width=int(settings.get("max_width", 12)),
        max_words=int(settings.get("max_len", 384)),
        max_labels=max_labels if label_encoder is None else _LABELS_OF_TWO_ENCODERS,
        ent_token=str(ent),
        sep_token=str(sep),
        class_id=int(index) if is_given else None,
        added_tokens=added if adds else (),
        reads_marker=bool(settings.get("embed_ent_token", True)),
        subtoken_pooling=settings.get("subtoken_pooling", "first"),
        # The reference builds a bi-encoder's LSTM and never runs it.
        num_rnn_layers=0 if label_encoder is not None else int(settings.get("num_rnn_layers", 1)),
        label_encoder=label_encoder,
        relations=relations,
    )


def _relations(settings: dict[str, Any], *, is_given: bool) -> RelationRule | None:
    """Read how entities are linked; `is_given`: the markers' ids are those of the file."""
    layer = settings.get("relations_layer")
    if layer is None:
        return None
    index = settings.get("rel_token_index", -1)
    return RelationRule(
        token=str(settings.get("rel_token", "<<REL>>")),
        token_id=int(index) if is_given and index != -1 else None,
        reads_marker=bool(settings.get("embed_rel_token", True)),
        adjacency=layer,
        triple=settings.get("triples_layer"),
    )


def _labels(
    name: str, files: Files, settings: dict[str, Any], tokenizer_folder: Path | None
) -> LabelEncoder:
    """Read the second encoder of a bi-encoder."""
    architecture, config = read_encoder(
        name,
        files,
        settings,
        LABEL_ENCODER,
        key="labels_encoder_config",
        name_key="labels_encoder",
    )
    inside = files.folder / _LABEL_TOKENIZER
    folder = inside if (inside / "tokenizer.json").is_file() else tokenizer_folder
    if folder is None:
        raise ModelLoadFailed(
            f"{name}: it has no {_LABEL_TOKENIZER}/tokenizer.json; put that of "
            f"{settings['labels_encoder']} there"
        )
    limits = [position_limit(config, ARCHITECTURES[architecture]), said_length(Files(folder))]
    limit = min((one for one in limits if one is not None), default=None)
    files.decide("label_encoder", architecture, CONFIG)
    return LabelEncoder(architecture, config, limit, folder)
