"""The oracle and the prefill against transformers' own paths, which know nothing of kvdiv."""

import inspect

import pytest
import torch
from transformers import DynamicCache

from kvdiv.models.oracle import oracle_logits
from kvdiv.models.prefill import prefill
from kvdiv.theory.errors import DocumentError, ModelError, NumericalError

NAMES = ["Llama", "Qwen2", "Qwen3", "Mistral"]
PROMPT = [(5 * i + i * i) % 17 for i in range(30)]
GENERATED = [3, 9, 1, 16]
TOLERANCE = 2e-5  # fp32 logits of a few units, sums of some hundred terms; see test_decode.py


def stock(checkpoint, tokens, **options):
    """The model under transformers' sdpa attention, put back afterwards."""
    model = checkpoint.model
    model.set_attn_implementation("sdpa")
    try:
        with torch.inference_mode():
            return model(torch.tensor([tokens]), **options)
    finally:
        model.set_attn_implementation("kvdiv")


@pytest.mark.parametrize("name", NAMES)
def test_without_eviction_the_oracle_is_the_stock_model(tiny, name):
    """kept=None, and keeping every position, give the stock model's logits; the attention is put back."""
    checkpoint = tiny(name)
    expected = stock(checkpoint, PROMPT + GENERATED).logits[0, len(PROMPT) - 1 :]
    everything = torch.arange(len(PROMPT)).expand(2, 2, -1)
    for kept in (None, everything):
        found = oracle_logits(checkpoint.model, PROMPT, GENERATED, kept)
        assert found.shape == expected.shape
        assert (found - expected).abs().max() < TOLERANCE
    assert checkpoint.model.config._attn_implementation == "kvdiv"


def test_the_first_row_never_sees_the_mask(tiny):
    """Row 0 comes from the last prompt position, which eviction does not touch; later rows change."""
    checkpoint = tiny()
    one = torch.zeros(2, 2, 1, dtype=torch.long)
    found, whole = (oracle_logits(checkpoint.model, PROMPT, GENERATED, kept) for kept in (one, None))
    assert torch.equal(found[0], whole[0])
    assert all((found[t] - whole[t]).abs().max() > 0.01 for t in range(1, len(GENERATED) + 1))


def test_masks_belong_to_kv_heads(tiny):
    """Values of KV head 0 are zero, so hiding its keys from generated queries changes nothing; hiding head 1's does.

    Where head 0's values are all zero its attention output is zero whatever it sees; a mask that hit head 1's queries would
    show.
    """
    checkpoint = tiny(num_hidden_layers=1)
    attention = checkpoint.model.model.layers[0].self_attn
    with torch.no_grad():
        attention.v_proj.weight[: attention.head_dim] = 0
    whole = oracle_logits(checkpoint.model, PROMPT, GENERATED, None)
    everything, few = torch.arange(len(PROMPT)), torch.arange(6, 12)
    hidden = [few.repeat(5), everything]  # repeats hide nothing more: a set of positions is what counts
    first = torch.stack([hidden[0][: len(PROMPT)], hidden[1]])[None]
    second = torch.stack([hidden[1], hidden[0][: len(PROMPT)]])[None]
    assert (oracle_logits(checkpoint.model, PROMPT, GENERATED, first) - whole).abs().max() < TOLERANCE
    assert (oracle_logits(checkpoint.model, PROMPT, GENERATED, second) - whole).abs().max() > 0.01


@pytest.mark.parametrize("name", NAMES)
def test_prefill_keeps_what_the_stock_cache_keeps(tiny, name):
    """Keys and values per layer equal DynamicCache's, logits the stock model's, in prompt order."""
    checkpoint = tiny(name)
    cache = DynamicCache(config=checkpoint.model.config)
    # The parameter's name differs between releases of transformers.
    name = "cache" if "cache" in inspect.signature(checkpoint.model.forward).parameters else "past_key_values"
    expected = stock(checkpoint, PROMPT, use_cache=True, **{name: cache}).logits[0, -1]
    found = prefill(checkpoint.model, PROMPT, window=8)
    assert found.length == len(PROMPT)
    assert (found.logits - expected).abs().max() < TOLERANCE
    for layer in range(2):
        assert (found.keys[layer] - cache.layers[layer].keys[0]).abs().max() < TOLERANCE
        assert (found.values[layer] - cache.layers[layer].values[0]).abs().max() < TOLERANCE


def test_prefill_keeps_the_last_queries(tiny):
    """A window of 8 is the end of a window of 30; a longer one than the prompt keeps all, and 0 none."""
    checkpoint = tiny()
    eight, all_, none = (prefill(checkpoint.model, PROMPT, window=w).queries for w in (8, 64, 0))
    assert eight.shape == (2, 8, 8, 8)
    assert all_.shape == (2, 8, 30, 8)
    assert none.shape == (2, 8, 0, 8)
    assert torch.equal(eight, all_[:, :, -8:])


def test_a_document_twice_is_bitwise_equal(tiny):
    """Two prefills of one prompt in one process are equal in every bit (fault 18)."""
    checkpoint = tiny()
    first, second = (prefill(checkpoint.model, PROMPT) for _ in range(2))
    assert all(
        torch.equal(getattr(first, part), getattr(second, part)) for part in ("keys", "values", "queries", "logits")
    )


def test_prompts_that_cannot_be_read(tiny):
    """An empty prompt, and weights that make logits NaN, are one-line errors with the document's name."""
    checkpoint = tiny()
    with pytest.raises(DocumentError, match="'d' has an empty prompt"):
        prefill(checkpoint.model, [], document="d")
    with torch.no_grad():
        checkpoint.model.lm_head.weight[3] = float("nan")
    with pytest.raises(NumericalError, match="'d': NaN or infinite logits after the prompt of 30 tokens"):
        prefill(checkpoint.model, PROMPT, document="d")


def test_the_seam_refuses_what_it_does_not_cover(tiny):
    """A call without a context, or with a padding mask, is a ModelError."""
    checkpoint = tiny()
    with pytest.raises(ModelError, match=r"call it through kvdiv\.models\.prefill or decode"):
        checkpoint.model(torch.tensor([PROMPT]), use_cache=False)
