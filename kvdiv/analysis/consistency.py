r"""What holds of the records of every run, whatever was measured; checked before anything is computed from them.

One horizon; every document and stratum as in the documents table; no replicate twice; f_t = delta_t for t <= tau, since until the
first mismatch there is one history; a branch that runs along its own scan until J, its mismatch at J. Tokens are compared, which
are exact on every machine; TVs only where they are one number written twice.
"""

from collections.abc import Sequence

from kvdiv.estimates import Branch, Rollout
from kvdiv.records import DocumentRecord, Replicate
from kvdiv.theory.errors import RecordError


def check_records(replicates: Sequence[Replicate], documents: Sequence[DocumentRecord]) -> None:
    """`RecordError`, with the document named, where the records do not belong together or are not of coupled programs."""
    if not replicates or not documents:
        raise RecordError(f"{len(replicates)} records of {len(documents)} documents: there is nothing to analyse")
    strata: dict[str, str] = {}
    for document in documents:
        if strata.setdefault(document.document, document.stratum) != document.stratum:
            raise RecordError(f"document {document.document!r} stands in two strata; give every document one")
    horizon = replicates[0].value.horizon
    seen = set()
    for r in replicates:
        if strata.get(r.document) != r.stratum:
            raise RecordError(f"document {r.document!r} of stratum {r.stratum!r} is not in the documents table")
        if (key := (r.document, r.action, r.estimator, r.replicate)) in seen:
            raise RecordError(f"replicate {key} is there more than once")
        seen.add(key)
        if r.value.horizon != horizon:
            raise RecordError(
                f"document {r.document!r} has horizon {r.value.horizon}, others {horizon}; analyse them apart"
            )
        if wrong := _rollout(r.value) if isinstance(r.value, Rollout) else _branch(r.value):
            raise RecordError(f"document {r.document!r}, {r.estimator} replicate {r.replicate}: {wrong}")


def _rollout(rollout: Rollout) -> str | None:
    lengths = {len(rollout.x), len(rollout.y), len(rollout.delta), len(rollout.forced or rollout.delta)}
    if len(lengths) > 1:
        return f"tokens and TVs have lengths {sorted(lengths)}, not one horizon"
    first = rollout.first_divergence or rollout.horizon
    if rollout.forced is not None and rollout.forced[:first] != rollout.delta[:first]:
        return "the fixed-history TV differs from delta before the first mismatch"
    return None


def _branch(record: Branch) -> str | None:
    if record.branch is None:
        return "branch time without a branch" if record.branch_time is not None else None
    before = (record.branch_time or 1) - 1
    if record.branch.first_divergence != record.branch_time or record.branch.x[:before] != record.overlap[:before]:
        return f"the branch does not follow its scan until J = {record.branch_time} and diverge there"
    return _rollout(record.branch)
