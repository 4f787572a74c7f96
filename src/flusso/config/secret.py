"""A value that must not be seen, and where it comes from.

An explicit `{ env = "VAR" }` wins over the reserved variable of its place, that one over a literal in the
file. The value is resolved here, on the driver; it leaves only by `reveal`, into what is pickled to
executors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from flusso.diagnostic import Code
from flusso.schema.node import Node, Problems
from flusso.schema.section import Section

DATABASE_URL = "DATABASE_URL"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A text that shows itself only when asked to."""

    _value: str

    def reveal(self) -> str:
        """Give the value, for the one place that needs it."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    def __str__(self) -> str:
        return "***"


@dataclass(frozen=True, slots=True)
class Resolver:
    """Finds the values of secrets for one file. Messages name the variable, never the value."""

    env: Mapping[str, str]
    problems: Problems
    needs_values: bool = True
    """Whether a variable that is not set is a problem; a lock is built without any value."""

    def resolve(self, node: Node | None, *, reserved: str | None = None) -> Secret | None:
        """Give the value of a place in the file, or None when it is set nowhere or wrong."""
        if node is not None and isinstance(node.value, dict):
            return self._from_variable(node)
        if (found := self.reserved(reserved)) is not None:
            return found
        if node is None:
            return None
        if not isinstance(node.value, str) or not node.value:
            self.problems.at(node, 'must be a text or { env = "VAR" }', Code.WRONG_TYPE)
            return None
        return Secret(node.value)

    def reserved(self, name: str | None) -> Secret | None:
        """Give the value of a reserved variable; an empty one counts as not set."""
        value = self.env.get(name, "") if name is not None else ""
        return Secret(value) if value else None

    def _from_variable(self, node: Node) -> Secret | None:
        section = Section(node, self.problems, ("env",))
        section.need("env")
        name = section.text("env")
        if not name:
            return None
        value = self.env.get(name, "")
        if not value and not self.needs_values:
            return Secret("")
        if not value:
            section.wrong(f"environment variable {name} is not set", "env", code=Code.UNSET_VARIABLE)
            return None
        return Secret(value)


def reserved_variable(sink: str, what: str, kind: str = "opensearch") -> str:
    """Name the variable that a sink's setting may come from: `primary`, `URL` → `PRIMARY_OPENSEARCH_URL`."""
    return f"{re.sub(r'[^A-Za-z0-9]', '_', sink)}_{kind}_{what}".upper()
