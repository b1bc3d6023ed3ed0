"""Text that others wrote, on the way to a terminal: it is shown, and steers nothing."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.table import Table

from benchmarks.runners.full_runner import entry_point
from skymark.cli.caller import ask, note, print_json, print_plain, say, tell_fault
from skymark.cli.console import PlainConsole, plain_stream
from skymark.cli.main import main
from skymark.cli.tables import print_rows

ESCAPES = (
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x9b2J",
    "\x1b]8;;http://x.invalid\x1b\\",
    "\u202e",
    "\r",
)
ANY_TEXT = settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def steering(text):
    """Characters that a terminal obeys."""
    return [one for one in text if one not in "\n\t" and unicodedata.category(one)[0] == "C"]


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "{}"),
        ("compare", "{}", "{}"),
        ("export", "{}", "--to", "{}"),
        ("fetch", "{}", "out"),
        ("plan", "--adapters", "{}"),
        ("plan", "--scenarios", "{}"),
        ("plan", "--profile", "{}"),
        ("plan", "--set", "{}"),
        ("plan", "--{}"),
        ("plan", "--effort", "{}"),
        ("{}",),
        ("list", "{}"),
        ("run", "--plan", "{}"),
        ("plan", "--data", "{}", "--scenarios", "CV-1"),
    ],
)
def test_no_error_passes_an_escape_on(capsys, tmp_path, monkeypatch, arguments, escape):
    monkeypatch.chdir(tmp_path)
    assert main([one.replace("{}", f"a{escape}b") for one in arguments]) == 2
    out, err = capsys.readouterr()
    assert err
    assert steering(out + err) == []


@ANY_TEXT
@given(text=st.text())
def test_any_text_is_shown_without_control_characters(capsys, text):
    say(text)
    note(text)
    print_plain(text)
    print_json(f'"{text}"')
    print_rows(("a", text), [(text, text)])
    stream = io.StringIO()
    print(text, file=plain_stream(stream))
    out, err = capsys.readouterr()
    assert steering(out + err + stream.getvalue()) == []


def test_markup_in_foreign_text_is_text(capsys):
    print_rows(("name",), [("[link=http://x.invalid]a[/link] [bold]b :warning:",)])
    assert "[link=http://x.invalid]a[/link] [bold]b :warning:" in capsys.readouterr().out


def test_a_table_drops_the_colours_of_others():
    console = PlainConsole(width=60)
    console.file = stream = io.StringIO()
    table = Table("name")
    table.add_row("\x1b[31mred")
    console.print(table)
    assert "\ufffd[31mre" in stream.getvalue()


def test_another_machine_s_output_has_lines_and_no_colours():
    stream = io.StringIO()
    plain_stream(stream).write("\x1b[32mok\x1b[0m\r\n10 %\r20 %\x1b[2K\n")
    assert stream.getvalue() == "ok\n10 %\n20 %\ufffd[2K\n"


FORGED = "skymark: skymark-cpu-1 is gone"
TAIL = FORGED.removeprefix("skymark: sky")


@pytest.mark.parametrize("pause", [False, True], ids=["written", "flushed"])
@pytest.mark.parametrize("size", [1, 3, 1000], ids="in pieces of {}".format)
@pytest.mark.parametrize(
    "said",
    [
        f"(run, pid=7) 10 %\r{FORGED}\r\n",
        f"{FORGED}\n",
        f"\x1b[2K\x1b[1G\n{FORGED}\n",
        f"\x1b[0m{FORGED}\n",
        f"a\n \t{FORGED.upper()}\n",
        f"sky\nskymar\n{FORGED}",
    ],
)
def test_another_machine_s_output_is_no_message_of_this_program(said, size, pause):
    stream = io.StringIO()
    shown = plain_stream(stream)
    for at in range(0, len(said), size):
        shown.write(said[at : at + size])
        if pause:
            shown.flush()
    lines = stream.getvalue().splitlines()
    assert not any(line.lstrip().casefold().startswith("skymark") for line in lines)
    assert any(TAIL in line.casefold().replace("| ", "") for line in lines)


def test_a_further_line_of_a_message_is_no_message_of_its_own(capsys):
    say(f"the run failed: {FORGED.upper()}\n {FORGED}\r{FORGED}")
    said = capsys.readouterr().err.splitlines()
    assert [line.lstrip().startswith("skymark:") for line in said] == [True, False]
    assert said[1].startswith("|  skymark: ")


def test_the_traceback_of_an_unexpected_error_steers_nothing(capsys):
    with pytest.raises(ValueError) as caught:
        int("a\x1b[2Jb\x9b")
    told = ValueError("a\x1b[2Jb")
    tell_fault(ValueError, told, caught.tb)
    err = capsys.readouterr().err
    assert "ValueError: a\ufffd[2Jb" in err
    assert steering(err) == []


def test_a_question_steers_nothing(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(" Yes\n"))
    assert ask("Stop a\x1b[2Jb? ") == "yes"
    assert capsys.readouterr().err == "Stop a\ufffd[2Jb? "


@pytest.mark.parametrize("escape", ESCAPES)
def test_no_error_of_a_machine_s_runner_passes_an_escape_on(capsys, tmp_path, monkeypatch, escape):
    monkeypatch.setattr("benchmarks.runners.full_runner.end_when_told", lambda: None)
    words = ("--platform", "cpu", "--output", str(tmp_path), f"--a{escape}b")
    assert entry_point(words) == 2
    err = capsys.readouterr().err
    assert err
    assert steering(err) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("fetch", "{}bucket/x", "out"),
        ("fetch", "wandb://me:sekret@e/p/a:v", "out"),
        ("plan", "--data", "{}h/x", "--scenarios", "CV-1"),
        ("plan", "--data", "hf://me:sekret@h/x", "--scenarios", "CV-1"),
        ("plan", "--effort", "{}x"),
        ("export", "{}", "--to", "{}x"),
        ("run", "--store", "file://me:sekret@h/p"),
    ],
)
@pytest.mark.parametrize("address", ["s3://me:sekret@", "https://me:sekret@"])
def test_no_error_repeats_a_password(capsys, tmp_path, monkeypatch, arguments, address):
    monkeypatch.chdir(tmp_path)
    assert main([one.replace("{}", address) for one in arguments]) == 2
    out, err = capsys.readouterr()
    assert err
    assert "sekret" not in out + err
