"""Where in a schema a finding belongs: the index, and the field by its dotted name in the document.

The line in the file is found later, by whoever has the file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flusso.diagnostic import Code, Diagnostic


@dataclass(frozen=True, slots=True)
class Spot:
    """A field of an index, or its root."""

    index: str
    field: str = ""

    def into(self, name: str) -> Spot:
        """Go one field deeper."""
        return replace(self, field=f"{self.field}.{name}" if self.field else name)

    def says(self, code: Code, message: str, *, key: str = "", hint: str | None = None) -> Diagnostic:
        """Make a finding of this place; `key` is what to blame, like `foreign_key` or `filters[0]`."""
        return Diagnostic(code, message, hint, path=key, index=self.index, field=self.field)
