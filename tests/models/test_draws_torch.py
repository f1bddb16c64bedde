"""The floating point coupling draws the same tokens from torch tensors as from numpy arrays."""

import numpy as np
import torch

from kvdiv.draws import couple, split
from kvdiv.uniforms import BLOCK, Stream


def test_torch_and_numpy_draw_the_same():
    """300 random row pairs over 50 tokens, a third with zeros: equal tokens, e equal to one rounding of a sum."""
    generator = np.random.default_rng(0)
    p, q = generator.dirichlet(np.ones(50), 300), generator.dirichlet(np.ones(50), 300)
    p[::3, 10:30] = 0
    p /= p.sum(-1, keepdims=True)
    u = Stream(0, "torch").many(300 * BLOCK).reshape(300, BLOCK)
    ours, theirs = split(p, q), split(torch.from_numpy(p), torch.from_numpy(q))
    assert np.abs(ours.e - theirs.e.numpy()).max() < 50 * 2**-53
    for a, b in zip(couple(ours, u), couple(theirs, torch.from_numpy(u)), strict=True):
        assert (a == b.numpy()).all()
