"""`flusso schema config|index`: print the JSON Schema of a file that users write, for their editors."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from flusso.config.json_schema import config_schema
from flusso.schema.json_schema import index_schema


class Kind(StrEnum):
    """Which of the two files."""

    CONFIG = "config"
    INDEX = "index"


def schema(
    kind: Annotated[Kind, typer.Argument(help="config: flusso.toml; index: a *.schema.yml.")],
) -> None:
    """Print a JSON Schema for editors."""
    found = config_schema() if kind is Kind.CONFIG else index_schema()
    print(json.dumps(found, indent=2))
