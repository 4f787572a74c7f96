"""Flags that several commands share; each has an environment twin."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[
    Path,
    typer.Option(
        "--config", "-c", envvar="FLUSSO_CONFIG", help="The deployment file, or a lock of it.", dir_okay=False
    ),
]
Slot = Annotated[str | None, typer.Option(envvar="FLUSSO_SLOT", help="Use this replication slot.")]
Publication = Annotated[str | None, typer.Option(envvar="FLUSSO_PUBLICATION", help="Use this publication.")]
Prefix = Annotated[
    str | None,
    typer.Option("--index-prefix", envvar="FLUSSO_INDEX_PREFIX", help="Put this before every index name."),
]


class Format(StrEnum):
    """How facts are printed."""

    TEXT = "text"
    JSON = "json"


OutputFormat = Annotated[
    Format, typer.Option("--format", envvar="FLUSSO_FORMAT", help="How to print the facts.")
]
DEFAULT_CONFIG = Path("flusso.toml")
