"""What a person or a script meets at the command line before any work is done."""

import subprocess
import sys

import pytest
from typer.main import get_command

from features.tables import BusyError, ForeshockError, InputError, ModelError, UpstreamError, UsageError
from pipelines import cli

PROMISED = {
    "demo": {"--out"},
    "simulate": {"--nodes", "--gpus", "--days", "--failures", "--metrics", "--step", "--seed", "--start"},
    "ingest": {
        *(
            "--metrics",
            "--logs",
            "--sessions",
            "--incidents",
            "--prometheus",
            "--start",
            "--end",
            "--match",
            "--header",
        ),
        *("--step", "--timezone", "--reference-time", "--boot-time", "--node", "--loki", "--loki-query"),
    },
    "events": set(),
    "failures": {"--preset"},
    "features": {"--window", "--stride", "--scheduler", "--workers"},
    "train": {
        *("--horizon", "--gap", "--window", "--stride", "--budget", "--preset", "--models", "--experiment"),
        *("--tracking-uri", "--no-register", "--also"),
    },
    "score": {
        *("--prometheus", "--logs", "--at", "--model", "--bundle", "--out", "--textfile", "--pushgateway"),
        *("--alertmanager", "--send", "--loki"),
    },
    "backtest": {"--model", "--bundle", "--start", "--end"},
    "checkpoints": {"--json", "--workers", "--experiment", "--tracking-uri"},
    "retries": {"--preset", "--experiment", "--tracking-uri"},
    "promote": {"--alias"},
    "ack": {"--until", "--why"},
    "ui": {"--port"},
}


def options(name: str) -> set[str]:
    command = get_command(cli.app).commands[name]  # type: ignore[attr-defined]  # the root is a group
    return {option for parameter in command.params for option in parameter.opts}


def fails(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    def app(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", app)
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    return int(str(ended.value.code))


@pytest.mark.parametrize("name", PROMISED)
def test_a_command_has_the_options_it_promises(name: str) -> None:
    assert PROMISED[name] | {"--config"} <= options(name)


@pytest.mark.parametrize(
    ("kind", "code"),
    [(ForeshockError, 1), (UsageError, 2), (InputError, 3), (ModelError, 4), (UpstreamError, 5), (BusyError, 75)],
)
def test_an_error_ends_as_one_line_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: type[ForeshockError], code: int
) -> None:
    assert fails(monkeypatch, kind("what was wrong\nand the cure")) == code
    assert capsys.readouterr().err == "foreshock: error: what was wrong and the cure\n"


def test_the_unexpected_ends_as_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fails(monkeypatch, ZeroDivisionError("oops")) == 1
    assert capsys.readouterr().err.startswith("foreshock: error: unexpected ZeroDivisionError: oops")


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fails(monkeypatch, KeyboardInterrupt()) == 130


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["train"],
        ["events", "store", "--no-such-option"],
        ["train", "store", "--horizon", "soon"],
        ["train", "store", "--budget", "0"],
        ["train", "store", "--budget", "nan"],
        ["train", "store", "--budget", "inf"],
        ["failures", "store", "--preset", "mine"],
        ["ingest", "store", "--prometheus", "http://127.0.0.1:1"],
        ["score", "--at", "2026-01-01T00:00:00Z"],
        ["events", "store", "--log-format", "xml"],
    ],
)
def test_a_wrong_use_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err


def test_the_version_is_the_installed_one() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("foreshock 0.")


def test_help_needs_none_of_the_heavy_libraries() -> None:
    probe = (
        "import sys, pipelines.cli; "
        "print(sorted({'mlflow', 'tsfresh', 'lightgbm', 'numba', 'sklearn', 'optuna'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
