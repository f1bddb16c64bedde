"""A document: the prompt of one generation, the independent unit of every analysis."""

from dataclasses import dataclass

from kvdiv.theory.errors import DocumentError


@dataclass(frozen=True)
class Document:
    """id: unique name. stratum: the group it is averaged in. messages: (role, content) pairs, in order; at least one."""

    id: str
    stratum: str
    messages: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        if not self.id or not self.stratum:
            raise DocumentError(f"document id {self.id!r}, stratum {self.stratum!r}: neither may be empty")
        if not self.messages or not any(content.strip() for _, content in self.messages):
            raise DocumentError(f"document {self.id!r} has no text")
