"""The `charonia` command with its subcommands."""

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


@group.command("check", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="REPO [REPO…] [flags of serve]")
@click.option("--model", "models", multiple=True, metavar="NAME", help="Only this model. Repeat it for several.")
@click.option("--load", is_flag=True, help="Also load and warm up each model, one after the other.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (charonia/tools/check/as_json.py).")
@click.option("--strict", is_flag=True, help="Warnings make the exit code 1 too.")
def check(words: tuple[str, ...], models: tuple[str, ...], load: bool, as_json: bool, strict: bool) -> None:
    """Say everything that is wrong with the models of a repository, without serving it.

    Each problem of each model comes with its place, the reason, and what to write instead; warnings tell what works
    and costs. Nothing of the models is executed and no weights are loaded unless --load says so.

    Flags of `charonia serve` change what is right, as --disable-auto-complete-config, --model-config-name,
    --backend-config, --backend-directory, --no-gpu: a whole launch line may stand here.

    Exit code: 0 when every model can be served, 1 when one can't, 2 for a wrong command line.
    """
    from charonia.cli.check import run_check

    sys.exit(run_check(words, models, load=load, as_json=as_json, strict=strict))


@group.group("trace")
def trace() -> None:
    """Work with trace files."""


@trace.command("convert")
@click.argument("source", metavar="FILE")
@click.option("-o", "--output", "target", default="-", metavar="FILE", help="Where to write (default: stdout).")
def convert(source: str, target: str) -> None:
    """Make a trace file in Triton's format one that trace viewers open.

    Open the result at https://ui.perfetto.dev or in chrome://tracing. FILE may be - for standard input.
    """
    from charonia.cli.trace import run_convert

    sys.exit(run_convert(source, target))


@group.command("version")
def version() -> None:
    """Print the version."""
    click.echo(f"charonia {__version__}")
