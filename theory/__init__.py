"""The exact layer, in reading order: `coupling`, `kernels`, `exact`, `dominance`, `errors`.

Rational arithmetic on small kernel pairs; no torch, no transformers, no random numbers.
"""

from kvdiv.theory.coupling import coupling_law, overlap, residuals, total_variation
from kvdiv.theory.dominance import naive_variance, variance_gap
from kvdiv.theory.exact import ExactValues, exact_values
from kvdiv.theory.kernels import KernelPair, absorbing, iid, table

__all__ = [
    "ExactValues",
    "KernelPair",
    "absorbing",
    "coupling_law",
    "exact_values",
    "iid",
    "naive_variance",
    "overlap",
    "residuals",
    "table",
    "total_variation",
    "variance_gap",
]
