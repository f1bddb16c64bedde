"""The command line. Every error kvdiv raises on purpose is one line on standard error and exit code 2."""

import sys
from pathlib import Path
from typing import Any

import click

from kvdiv import __version__
from kvdiv.theory.errors import KvdivError, ModelError


class _Group(click.Group):
    """A click group that turns a `KvdivError` into one line, unless a traceback is asked for."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KvdivError as error:
            if ctx.params.get("traceback"):
                raise
            click.echo(f"kvdiv: {type(error).__name__}: {error}", err=True)
            ctx.exit(2)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.option("--traceback", is_flag=True, help="Show where an error came from.")
def main(traceback: bool) -> None:
    """How much, and when, generations diverge once a KV cache has been evicted."""


@main.command()
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("kvdiv-demo"), show_default=True, help="Folder to write."
)
@click.option("--quick", is_flag=True, help="A smaller run, within two minutes.")
@click.option("--model", default="smollm2", show_default=True, help="smollm2, a local folder, or a hub id.")
@click.option(
    "--document-file", type=click.Path(path_type=Path), help="Your documents: JSONL, a text file, or a folder of them."
)
@click.option("--action", "actions", multiple=True, help="Eviction action, e.g. snapkv-half; repeat for several.")
@click.option("--documents", type=click.IntRange(min=1), help="Number of documents; 8 by default, or all of a file.")
@click.option("--replicates", type=click.IntRange(min=2), help="Replicates of each estimator, action and document.")
@click.option("--horizon", type=click.IntRange(min=2), help="Generated tokens per trajectory.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--fixed-history", is_flag=True, help="Also measure the perturbed kernel on the reference's history (F and R - F)."
)
@click.option("--batch", type=click.IntRange(min=1), help="Replicates of an action that run together; all by default.")
@click.option(
    "--weights",
    type=click.Choice(["float32", "bfloat16"]),
    default="float32",
    show_default=True,
    help="Weight precision; arithmetic is fp32.",
)
def demo(**options: Any) -> None:
    """Exact toy kernels, enumerated estimators, a real model with an evicted cache, and a report.

    Exit code 0, 2 for an error (one line, nothing written), 3 where a control failed (the report says which).
    """
    try:
        from kvdiv.demo import Demo, run
    except ModuleNotFoundError as missing:
        raise ModelError(
            f"{missing.name} is not installed; kvdiv demo needs the extra: pip install 'kvdiv[models]'"
        ) from missing
    quick = options.pop("quick")
    settings = Demo.quick() if quick else Demo()
    given = {name: value for name, value in options.items() if value is not None and value != ()}
    out = given.pop("out")
    results = run(settings.replace(**given), out, echo=lambda line: click.echo(line, err=True))
    if failed := [control["name"] for control in results["controls"] if not control["passed"]]:
        click.echo(f"kvdiv: control {failed[0]} failed; do not believe this run's results, see docs/noise.md", err=True)
        sys.exit(3)


if __name__ == "__main__":
    sys.exit(main())
