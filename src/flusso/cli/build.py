"""`flusso build`: write the lock, or say whether it is up to date."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from flusso import __version__
from flusso.cli.assemble import index_digests
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat
from flusso.config.lock import SUFFIX, Lock, changes, load_unlocked, make_lock, read_lock, render_lock
from flusso.errors import ConfigError


def build(
    config: Config = DEFAULT_CONFIG,
    out: Annotated[
        Path | None,
        typer.Option(
            envvar="FLUSSO_OUT", help="The file to write; beside the deployment if absent.", dir_okay=False
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", envvar="FLUSSO_CHECK", help="Write nothing; exit 1 if the lock is not up to date."
        ),
    ] = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Lock the deployment and its schemas in one file, for `flusso run --locked`."""
    path = out or config.with_suffix(SUFFIX)
    if config.suffix == SUFFIX:
        raise ConfigError(f"{config} is a lock already", hint="name the flusso.toml that it was built from")
    lock = make_lock(config, index_digests(load_unlocked(config)), flusso=__version__)
    if check:
        _compare(path, lock, output)
        return
    _write(path, render_lock(lock))
    if output is Format.JSON:
        print(json.dumps({"lock": str(path), "digests": lock.digests}, indent=2))
    else:
        print(f"{path}: {len(lock.digests)} index(es), no secrets; run it by: flusso run --locked")


def _compare(path: Path, lock: Lock, output: Format) -> None:
    changed = changes(lock, read_lock(path)) if path.exists() else ["the lock is not there"]
    if output is Format.JSON:
        print(json.dumps({"lock": str(path), "is_current": not changed, "changed": changed}, indent=2))
    elif changed:
        print(f"{path} is not up to date: {', '.join(changed)}; run flusso build")
    else:
        print(f"{path} is up to date")
    if changed:
        raise typer.Exit(1)


def _write(path: Path, text: str) -> None:
    """Write beside the file and move it there, so that nobody ever reads half a lock."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.absolute().parent, prefix=path.name, delete=False
        ) as file:
            file.write(text)
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {(error.strerror or 'not writable').lower()}") from error
