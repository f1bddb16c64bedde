"""Noise floors of SmolLM2: fp32, bf16 weights with fp32 arithmetic, bf16 arithmetic. Prints the table of docs/noise.md.

python benchmarks/noise.py [number of documents] [horizon]
"""

import sys

import numpy as np

from kvdiv.documents import demo_documents
from kvdiv.models.actions import action
from kvdiv.models.checkpoint import load_checkpoint
from kvdiv.models.controls import document_control
from kvdiv.models.measure import measure
from kvdiv.models.prompts import encode, token_count

VARIANTS = {
    "fp32": ("float32", "float32"),
    "bf16 weights, fp32 arithmetic": ("float32", "bfloat16"),
    "bf16 arithmetic": ("bfloat16", "bfloat16"),
}
ACTIONS = [action(name) for name in ("snapkv-90", "snapkv-half", "recent-half")]


def main(documents: int = 4, horizon: int = 64) -> None:
    """One row per variant: the floor, the chance that it alone makes a pair diverge, and the TV of real evictions beside it."""
    names = [one.name for one in ACTIONS]
    print(
        "| variant | floor: mean TV a step | largest | P(diverge) from it | "
        + " | ".join(f"TV {name}" for name in names)
        + " |"
    )
    print("|---|---|---|---|" + "---|" * len(names))
    for label, (dtype, weights) in VARIANTS.items():
        checkpoint = load_checkpoint("smollm2", dtype=dtype, weights=weights)
        prompts = [encode(checkpoint, one) for one in demo_documents(documents, seed=0, count=token_count(checkpoint))]
        floors, tvs = [], {name: [] for name in names}
        for prompt in prompts:
            one = measure(
                checkpoint, prompt, actions=ACTIONS, estimators=["naive"], replicates=2, horizon=horizon, seed=0
            )
            control = document_control(checkpoint, one, actions=ACTIONS, horizon=horizon, seed=0, thorough=False)
            floors.append(control.permuted)
            for replicate in one.replicates:
                tvs[replicate.action].append(np.mean(replicate.value.delta))
        floor = np.array(floors)
        diverge = -np.expm1(np.log1p(-floor).sum(1)).mean()
        shown = " | ".join(f"{np.mean(tvs[name]):.3f}" for name in names)
        print(f"| {label} | {floor.mean():.1e} | {floor.max():.1e} | {diverge:.2g} | {shown} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
