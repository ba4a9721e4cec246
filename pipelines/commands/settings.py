"""``foreshock config``: show, check and describe the settings."""

from __future__ import annotations

import typer

from pipelines import config as configuration
from pipelines import console
from pipelines.commands.options import ConfigOption

_group = typer.Typer(help="Show, check and describe the settings.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Give the application these commands."""
    app.add_typer(_group, name="config")


@_group.command()
def show(config: ConfigOption = None) -> None:
    """Print every setting in force, as TOML; a password in an address is not shown."""
    typer.echo(console.discreet(configuration.to_toml(configuration.load(config))), nl=False)


@_group.command()
def check(config: ConfigOption = None) -> None:
    """Say whether a settings file is valid."""
    configuration.load(config)
    typer.echo(f"{config or 'the defaults'}: ok")


@_group.command()
def schema() -> None:
    """Print the JSON schema of the settings file."""
    typer.echo(console.to_json(configuration.Config.model_json_schema(mode="serialization")), nl=False)
