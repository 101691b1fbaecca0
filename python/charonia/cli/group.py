"""The `charonia` command with its subcommands. Tools of later versions are added here."""

import sys

import click

from charonia import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="charonia", message="%(prog)s %(version)s")
def group() -> None:
    """Charonia, a model inference server that speaks Triton's protocols."""


@group.command(
    "serve",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
@click.pass_context
def serve(context: click.Context) -> None:
    """Serve model repositories; takes all of Triton's flags."""
    from charonia.cli.main import serve as run

    sys.exit(run("charonia serve", context.args))


@group.command("version")
def version() -> None:
    """Print the version."""
    click.echo(f"charonia {__version__}")
