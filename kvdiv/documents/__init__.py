"""Documents without a download, in reading order: `document`, `sizing`, `installed`, `synthetic`, `files`, `mix`."""

from kvdiv.documents.document import Document
from kvdiv.documents.files import read_documents
from kvdiv.documents.installed import installed_texts
from kvdiv.documents.mix import TOKENS, demo_documents
from kvdiv.documents.synthetic import KINDS, Task, synthetic

__all__ = ["KINDS", "TOKENS", "Document", "Task", "demo_documents", "installed_texts", "read_documents", "synthetic"]
