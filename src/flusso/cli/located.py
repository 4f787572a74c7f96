"""Give findings in the database the lines of the schema files that they are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flusso.config.deployment import Deployment
from flusso.diagnostic import Diagnostic
from flusso.errors import ConfigError
from flusso.schema.locate import locate


@contextmanager
def placed(deployment: Deployment) -> Iterator[None]:
    """Run a block whose errors then name the lines of the deployment's files."""
    try:
        yield
    except ConfigError as error:
        if not any(problem.index and not problem.line for problem in error.problems):
            raise
        raise type(error).of(with_places(error.problems, deployment)) from error


def with_places(findings: Sequence[Diagnostic], deployment: Deployment) -> list[Diagnostic]:
    """Look up the findings that name an index but no line, and put all in the order of the files.

    What has no line stands first: it is about the server, or a file as a whole.
    """
    texts = {index.name: _read(index.schema_path) for index in deployment.indexes}
    files = {index.name: _shown(index.schema_path) for index in deployment.indexes}
    found: list[Diagnostic] = []
    for finding in findings:
        text = texts.get(finding.index)
        if finding.line or text is None:
            found.append(finding)
        else:
            found += locate([finding], text, files[finding.index])
    order = {file: place for place, file in enumerate(dict.fromkeys(files.values()), 1)}
    return sorted(found, key=lambda one: (order.get(one.file, 0), one.line, one.column))


def _read(path: str) -> str | None:
    """Read a schema file again; a deployment that came from elsewhere may not have it."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return None


def _shown(path: str) -> str:
    """Name a file from where the user stands, as the problems of the files do."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
