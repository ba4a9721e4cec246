"""The README's commands are the ones that exist."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from features import tables
from pipelines.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (foreshock .*)$", README, flags=re.MULTILINE)
TARGETS = re.findall(r"^    make (\w+)", README, flags=re.MULTILINE)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_readme_is_understood(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    root = get_command(app)
    command = root.commands[words[0]]  # type: ignore[attr-defined]  # the root is a group
    if hasattr(command, "commands"):
        command, words = command.commands[words[1]], words[1:]
    context = command.make_context(words[0], words[1:], resilient_parsing=False)
    assert context.params


@pytest.mark.parametrize("target", TARGETS)
def test_a_make_target_of_the_readme_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_the_readme_shows_the_three_uses_and_the_two_commands() -> None:
    assert {line.split()[1] for line in COMMANDS} >= {"ingest", "train", "score", "ui", "failures"}
    assert set(TARGETS) == {"demo", "test"}


def test_links_of_the_readme_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith("http")]
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_exit_code_of_the_error_tree_is_in_the_readme() -> None:
    tree = [
        kind for kind in vars(tables).values() if isinstance(kind, type) and issubclass(kind, tables.ForeshockError)
    ]
    assert {f"| {kind.exit_code} |" for kind in tree} <= {match[0] for match in re.finditer(r"\| \d+ \|", README)}
