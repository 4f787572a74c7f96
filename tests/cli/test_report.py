"""How findings look: on a terminal, in a log, as JSON, and that no secret is among them."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from flusso.cli.main import app
from flusso.cli.report import print_findings, summarize
from flusso.config.load import load_deployment
from flusso.diagnostic import Code, Diagnostic
from flusso.errors import ConfigError

TOML = '[source]\ntype = "postgres"\nconnection_url = "postgresql://me:hunter2@db/shop"\n'
INDEX = '[[index]]\nname = "t"\nschema = "t.yml"\n'
SCHEMA = "version: 1\ntable: t\nfields: [{text: a}]\n"


def render(folder: Path, toml: str, schema: str = SCHEMA) -> str:
    """Give what is printed about the files, without colour."""
    (folder / "t.yml").write_text(schema)
    (folder / "flusso.toml").write_text(toml)
    with pytest.raises(ConfigError) as caught:
        load_deployment(folder / "flusso.toml", env={})
    out = StringIO()
    print_findings(Console(file=out, highlight=False, soft_wrap=True), caught.value.problems)
    return out.getvalue().replace(f"{folder}/", "")


def test_a_problem_of_a_schema_shows_its_line_with_a_mark_and_a_hint(tmp_path: Path) -> None:
    schema = SCHEMA + "filters:\n  - column: état\n    op: inn\n    value: [1]\n"
    assert render(tmp_path, TOML + INDEX, schema) == (
        'error[unknown-word]: filters[0].op: "inn" is not one of is_null, is_not_null, eq, neq, lt, lte, gt, '
        "gte, like, ilike, in, not_in, between\n"
        " --> t.yml:6:9\n"
        "  |\n"
        "6 |     op: inn\n"
        "  |         ^^^\n"
        '  = help: did you mean "in"?\n'
        "\n"
    )


def test_a_problem_of_the_toml_is_marked_under_its_value(tmp_path: Path) -> None:
    assert render(tmp_path, 'prefix = "Dev"  # mine\n' + TOML + INDEX) == (
        "error[invalid-name]: prefix: a prefix is lower case\n"
        " --> flusso.toml:1:10\n"
        "  |\n"
        '1 | prefix = "Dev"  ***\n'
        "  |          ^^^^^\n"
        "\n"
    )


def test_a_file_that_is_not_toml_shows_the_line_where_it_ends_to_be(tmp_path: Path) -> None:
    assert render(tmp_path, "prefix = dev\n" + TOML + INDEX) == (
        "error[invalid-toml]: not valid TOML: invalid value\n"
        " --> flusso.toml:1:10\n"
        "  |\n"
        "1 | prefix = dev\n"
        "  |          ^\n"
        "\n"
    )


def test_problems_of_all_files_come_together(tmp_path: Path) -> None:
    found = render(tmp_path, "prefx = 1\n" + TOML + INDEX, "version: 1\ntable: t\nfields: [{txt: a}]\n")
    assert [line for line in found.splitlines() if line.startswith("error")] == [
        'error[unknown-key]: prefx: unknown key "prefx"',
        'error[unknown-tag]: fields[0].txt: unknown type tag "txt"',
    ]


def test_a_mark_stands_under_wide_characters(tmp_path: Path) -> None:
    shown = render(tmp_path, TOML + INDEX, "version: 1\ntable: t\nfields: [{text: 名前, xy: 1}]\n")
    lines = shown.splitlines()
    assert lines[3] == "3 | fields: [{text: 名前, xy: 1}]"
    assert lines[4] == "  |                       ^^"


@pytest.mark.parametrize(
    "toml",
    [
        TOML.replace("postgresql", "mysql"),
        TOML.replace("connection_url", "conection_url"),
        TOML + 'password = "hunter2"\n',
        TOML + "password = 'hunter2'\n",
        TOML + 'pg = "hunter2"\n',
        TOML.replace('"postgresql://me:hunter2@db/shop"', '{ database = "d", pw = "hunter2" }'),
        TOML + '[sinks.a]\ntype = "opensearch"\nurl = "hunter2"\n',
        TOML + "passwort = hunter2\n",
        TOML + 'slot = """\nhunter2\n"""\n',
        TOML + '"hunter2" "x"\n',
        TOML.replace('"postgresql', "postgresql"),
        TOML.replace('shop"\n', "shop\n"),
        TOML + '[sinks.a]\ntype = "opensearch"\nurl = ["ftp://me:hunter2@a", \n "http://me:hunter2@"]\n',
        TOML + '[sinks.a]\ntype = "opensearch"\nurl = "http://a"\npassword = 1234567\n',
        TOML + "[spark.conf]\n'spark.ssl.keyPassword' = ['hunter2']\n",
        TOML + 'slot = "No" # not hunter2\n',
        TOML.replace("postgresql://me:hunter2@db/shop", "hunter2"),
    ],
)
def test_a_secret_is_not_shown_whatever_is_wrong_with_its_line(tmp_path: Path, toml: str) -> None:
    shown = render(tmp_path, toml + "no = 1\n" + INDEX)
    assert "-->" in shown
    assert "hunter2" not in shown
    assert "1234567" not in shown


def test_a_deployment_file_named_as_a_schema_does_not_show_its_secrets(tmp_path: Path) -> None:
    toml = TOML + INDEX.replace("t.yml", "flusso.toml")
    assert "hunter2" not in render(tmp_path, toml)
    yaml_like = TOML + 'password = "hunter2"\n' + INDEX.replace("t.yml", "flusso.toml")
    assert "hunter2" not in render(tmp_path, yaml_like)


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    shown = render(tmp_path, TOML + INDEX + '"\\u001b[31mred" = 1\n')
    assert "\x1b" not in shown
    assert "\\x1b[31mred" in shown


def test_a_very_long_line_is_cut_around_the_mark(tmp_path: Path) -> None:
    shown = render(tmp_path, TOML + INDEX, f"version: 1\ntable: t\nfields: [{'{text: a},' * 90}{{txt: b}}]\n")
    assert max(len(line) for line in shown.splitlines()) < 140


def test_colour_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Diagnostic(Code.WAL_LEVEL, "wal_level is replica")
    for no_color, expected in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", no_color)
        out = StringIO()
        print_findings(Console(file=out, force_terminal=True, color_system="standard"), [finding])
        assert ("\x1b[1;31m" in out.getvalue()) is expected


def test_findings_are_counted_by_severity() -> None:
    findings = [Diagnostic(code, "") for code in (Code.WAL_LEVEL, Code.NO_FREE_SLOT, Code.UNFIT_KEY)]
    assert summarize(findings) == "2 errors, 1 warning"


def test_check_prints_one_object_also_for_broken_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flusso.toml").write_text(TOML + INDEX)
    (tmp_path / "t.yml").write_text("version: 1\ntable: t\nfields: []\n")
    done = CliRunner().invoke(app, ["check", "--offline", "--format", "json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout) == {
        "findings": [
            {
                "severity": "error",
                "code": "empty-list",
                "message": "there are no fields",
                "hint": None,
                "index": None,
                "field": None,
                "file": "t.yml",
                "line": 3,
                "column": 9,
                "length": 2,
                "path": "fields",
            }
        ],
        "errors": 1,
        "relations": [],
        "warnings": 0,
    }


def test_check_of_good_files_says_so_and_ends_with_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flusso.toml").write_text(TOML + INDEX)
    (tmp_path / "t.yml").write_text(SCHEMA)
    done = CliRunner().invoke(app, ["check", "--offline"])
    assert (done.exit_code, done.stdout) == (0, "ok: 1 index, the files are right\n")


@pytest.mark.parametrize("kind", ["nothing", "a folder", "latin-1", "utf-16"])
def test_check_says_what_is_wrong_with_a_file_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flusso.toml").write_text(TOML + INDEX)
    schema = tmp_path / "t.yml"
    match kind:
        case "a folder":
            schema.mkdir()
        case "latin-1" | "utf-16":
            schema.write_bytes("# é\n".encode(kind))
    done = CliRunner().invoke(app, ["check", "--offline", "--format", "json"])
    (finding,) = json.loads(done.stdout)["findings"]
    assert (done.exit_code, finding["file"], finding["line"]) == (1, "flusso.toml", 6)
    assert finding["code"] == ("unreadable-file" if kind in ("nothing", "a folder") else "not-utf8")


def test_check_takes_the_prefix_that_run_would_take(tmp_path: Path) -> None:
    (tmp_path / "t.yml").write_text(SCHEMA)
    (tmp_path / "flusso.toml").write_text(TOML + INDEX)
    words = ["check", "--offline", "--config", str(tmp_path / "flusso.toml")]
    assert CliRunner().invoke(app, words).exit_code == 0
    refused = CliRunner().invoke(app, words, env={"FLUSSO_INDEX_PREFIX": "Dev"})
    assert refused.exit_code == 1
    assert "prefix" in refused.stdout
