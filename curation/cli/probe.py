"""`curate probe`: train a detector on a selection and judge it on what it has not seen."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from datalake.cli import console
from datalake.errors import InputError
from datalake.lake import Lake, Lineage, Selection
from datalake.tables import Table
from datalake.tables.failures import translated
from datalake.uri import Location

if TYPE_CHECKING:
    import pyarrow as pa

    from curation.probe import Check, Overlap, Report, Sampling

__all__ = ["probe"]

_AGAINST: Final = {"domain": "by_domain", "generator": "by_generator"}


def probe(
    session: console.Session,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table to train on.")],
    selection: Annotated[
        str | None, typer.Option(metavar="NAME", help="Train on a selection of it only.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Train on rows for which this holds.")
    ] = None,
    test: Annotated[str | None, typer.Option(metavar="TABLE", help="The table to test on.")] = None,
    test_where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Test on rows for which this holds.")
    ] = None,
    hold_out: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Instead of --test: test on these generators of the same table (commas between) "
            "and on bona fide rows that training does not hear.",
        ),
    ] = None,
    hold_out_bonafide: Annotated[
        float, typer.Option(help="With --hold-out: the share of bona fide rows held out.")
    ] = 0.3,
    drop_overlap: Annotated[
        bool, typer.Option("--drop-overlap", help="Train without the rows that the test holds.")
    ] = False,
    by: Annotated[str, typer.Option(help="Break the result down by domain or generator.")] = (
        "domain"
    ),
    detector: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="lfcc_lcnn, embedding_mlp, aasist, aasist_large, or one of your own.",
        ),
    ] = "lfcc_lcnn",
    embedding: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="With embedding_mlp: the column it reads."),
    ] = None,
    steps: Annotated[
        int, typer.Option(help="Optimizer steps at most, whatever the selection.")
    ] = 600,
    batch_size: Annotated[
        int, typer.Option(help="Utterances a step, half of them bona fide.")
    ] = 64,
    sampling: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="balanced (labels alike), domains (labels, then domains alike), natural (rows "
            "alike) or weights.  [default: balanced; weights with --weights]",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="SELECTION",
            help="Draw rows as often as this saved selection weighs them (`curate weigh`).",
        ),
    ] = None,
    weigh_loss: Annotated[
        bool,
        typer.Option(
            "--weigh-loss",
            help="With --weights: weigh the loss of rows, and draw them as --sampling says.",
        ),
    ] = False,
    rawboost: Annotated[
        int,
        typer.Option(metavar="1-8", help="Change training audio by this algorithm of RawBoost."),
    ] = 0,
    codecs: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Pass training audio through one of these codecs each (commas between): mp3, "
            "vorbis, opus, ulaw, alaw, gsm, g721.",
        ),
    ] = None,
    augmented_share: Annotated[
        float, typer.Option(help="Share of examples that --rawboost, and that --codecs change.")
    ] = 1.0,
    prototypes: Annotated[
        int, typer.Option(help="Latent refinement: so many prototypes of spoofs.")
    ] = 0,
    latent_augmentation: Annotated[
        bool,
        typer.Option("--latent-augmentation", help="Train on changed latent vectors of spoofs."),
    ] = False,
    sam: Annotated[
        float,
        typer.Option(metavar="RHO", help="Sharpness-aware minimisation, such as 0.05."),
    ] = 0.0,
    sharpness: Annotated[
        float,
        typer.Option(metavar="RHO", help="Report how sharp the minimum is, such as 0.05."),
    ] = 0.0,
    learning_rate: Annotated[float, typer.Option(help="The peak learning rate.")] = 1e-3,
    validation: Annotated[
        float, typer.Option(help="Share of each domain that decides when to stop.")
    ] = 0.1,
    check_every: Annotated[int, typer.Option(help="Steps between looks at validation.")] = 50,
    patience: Annotated[
        int, typer.Option(help="Looks without improvement before training stops.")
    ] = 6,
    seconds: Annotated[float, typer.Option(help="Seconds of an utterance that are heard.")] = 4.0,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many detectors, a seed each.")] = 1,
    resamples: Annotated[
        int, typer.Option(min=1, help="Bootstrap replicates of an interval.")
    ] = 1000,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    threads: Annotated[
        int, typer.Option(min=1, help="That augment; any number gives the same result.")
    ] = 2,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write report, detectors and scores there."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Train a small detector and report its equal error rate.

    The test is speech it has not seen: a table (--test), or generators of the same table that are
    held out (--hold-out). Half of every batch is bona fide and half spoof, and every selection gets
    the same number of steps, so that results compare. A test that shares utterances with the
    training is refused; generators and speakers on both sides are pointed out. How batches are
    drawn and what is done to the audio can be changed, and is in the report.
    """
    from curation import probe as judge

    if by not in _AGAINST:
        raise InputError(f"--by {by} is not known", expected="domain or generator")
    if out is not None:
        # Before the training, not after it.
        with translated(Location(str(out)), "Making the folder"):
            out.mkdir(parents=True, exist_ok=True)
    settings = judge.TrainingSettings(
        num_steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        validation_fraction=validation,
        check_every=check_every,
        patience=patience,
        seed=seed,
        sampling=_sampling(sampling, weights, weigh_loss),
        weighted_loss=weigh_loss,
        rawboost=rawboost,
        codecs=tuple(_names(codecs)),
        augmented_share=augmented_share,
        num_spoof_prototypes=prototypes,
        latent_augmentation=latent_augmentation,
        sam_rho=sam,
        sharpness_rho=sharpness,
    )
    design = judge.load_design(detector)
    if embedding is not None:
        design = design.reading(embedding)
    generators = _names(hold_out)
    lake = session.open_lake()
    sides = _sides(
        lake,
        table,
        # Weights alone say which rows and which version too.
        selection if selection is not None else weights,
        where,
        test,
        test_where,
        generators,
        hold_out_bonafide,
        seed,
    )
    if weights is not None:
        sides = sides.weighted(lake, table, weights)
    if drop_overlap:
        sides = sides.without_leaks()
    overlaps = judge.find_overlaps(sides.train_keys, sides.test_keys)
    judge.refuse_leaks(overlaps)
    lineage = Lineage(
        "probe",
        config={
            **asdict(settings),
            "detector": detector,
            "embedding": design.column,
            "weights": weights,
            "seconds": seconds,
            "num_seeds": seeds,
            "selection": selection,
            "where": where,
            "test": test,
            "test_where": test_where,
            "hold_out": generators,
            "hold_out_bonafide": hold_out_bonafide if generators else None,
            "drop_overlap": drop_overlap,
        },
        inputs=sides.inputs,
    )
    with ExitStack() as stack:
        progress = None if quiet else stack.enter_context(console.Progress("decode"))

        def decoded(done: int, total: int) -> None:
            if progress is not None:
                progress.update(done, total=total)

        def store_of(read: Table) -> judge.FeatureStore:
            return judge.FeatureStore(
                read,
                design,
                duration_s=seconds,
                device=device,
                on_progress=decoded,
                num_threads=threads,
            )

        train_store = store_of(sides.train_table)
        test_store = train_store if sides.is_one_table else store_of(sides.test_table)
        runs = judge.run_seeds(
            train_store,
            sides.train_keys,
            test_store,
            sides.test_keys,
            design=design,
            settings=settings,
            num_seeds=seeds,
            num_resamples=resamples,
            on_check=None if quiet else lambda at, check: _say(at, check, steps),
        )
    report = judge.Report(design.name, settings, runs, tuple(overlaps), lineage.properties())
    paths = report.save(out) if out is not None else []
    if session.as_json:
        written = [str(path) for path in paths]
        console.print_json({**report.to_dict(), "remark": sides.remark, "paths": written})
    else:
        _print(report, by, sides.remark, paths, str(train_store.device))


@dataclass(frozen=True)
class _Sides:
    """What trains and what tests."""

    train_table: Table
    train_keys: pa.Table
    test_table: Table
    test_keys: pa.Table
    inputs: dict[str, int]
    remark: str = ""
    """How one table was parted; empty for two tables."""

    @property
    def is_one_table(self) -> bool:
        one, other = self.train_table, self.test_table
        return (one.uri, one.version) == (other.uri, other.version)

    def weighted(self, lake: Lake, table: str, name: str) -> _Sides:
        """The same with the weights of a saved selection on the training rows that it draws."""
        from dataclasses import replace

        from curation.probe import with_weights

        weights = lake.selection(name)
        if (weights.table, weights.table_version) != (table, self.train_table.version):
            raise InputError(
                f"The weights {name!r} are of another table or version",
                expected=f"{table}, version {self.train_table.version}",
                found=f"{weights.table}, version {weights.table_version}",
                fix="Weigh the version to train on, or train on a selection of the same version",
            )
        inputs = {**self.inputs, name: lake.selection_table(name).version}
        return replace(self, train_keys=with_weights(self.train_keys, weights), inputs=inputs)

    def without_leaks(self) -> _Sides:
        """The same without the training rows that are utterances of the test."""
        from dataclasses import replace

        import pyarrow as pa

        from curation.probe import leaked

        kept = pa.array(~leaked(self.train_keys, self.test_keys))
        return replace(self, train_keys=self.train_keys.filter(kept))


def _sides(
    lake: Lake,
    table: str,
    selection: str | None,
    where: str | None,
    test: str | None,
    test_where: str | None,
    generators: list[str],
    bonafide_fraction: float,
    seed: int,
) -> _Sides:
    from curation.probe import hold_out_generators, read_keys

    if (test is None) == (not generators):
        raise InputError(
            "A probe needs a test",
            expected="either --test TABLE or --hold-out GENERATORS",
            found="both" if generators else "neither",
        )
    inputs = {}
    chosen: Selection | None = None
    source = lake[table]
    if selection is not None:
        chosen = lake.selection(selection)
        if chosen.table != table:
            raise InputError(
                f"The selection {selection!r} was made from another table",
                expected=f"a selection of {table}",
                found=f"one of {chosen.table}",
            )
        source = source.at(chosen.table_version)
        inputs[selection] = lake.selection_table(selection).version
    inputs[table] = source.version
    train_keys = read_keys(source, where=where, selection=chosen)
    if test is not None:
        other = lake[test]
        inputs[test] = other.version
        return _Sides(source, train_keys, other, read_keys(other, where=test_where), inputs)
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    # The whole table is parted, so that every selection meets the same test, and what --test-where
    # leaves out of the test does not train instead.
    keys = read_keys(source)
    parted = hold_out_generators(keys, generators, bonafide_fraction=bonafide_fraction, seed=seed)
    rows = keys["row_index"].to_numpy()

    def only(wanted: pa.Table, side: npt.NDArray[np.bool_]) -> pa.Table:
        return wanted.filter(pa.array(np.isin(wanted["row_index"].to_numpy(), rows[side])))

    return _Sides(
        source,
        only(train_keys, parted.train),
        source,
        only(read_keys(source, where=test_where), parted.test),
        inputs,
        f"bona fide rows held out by {parted.bonafide_by}; {parted.num_dropped:,} rows neither "
        "train nor test (held-out speakers, copies of test files)",
    )


def _sampling(sampling: str | None, weights: str | None, weigh_loss: bool) -> Sampling:
    """How rows are drawn: as asked, or by what else was asked."""
    if weigh_loss and weights is None:
        raise InputError(
            "There are no weights for the loss", fix="Give a saved selection: --weights NAME"
        )
    if sampling is None:
        return "weights" if weights is not None and not weigh_loss else "balanced"
    if weights is not None and not weigh_loss and sampling != "weights":
        raise InputError(
            f"--weights would not be used with --sampling {sampling}",
            fix="Leave --sampling out, or add --weigh-loss",
        )
    # What else is no way to sample is refused with the other settings.
    return cast("Sampling", sampling)


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _say(seed: int, check: Check, num_steps: int) -> None:
    typer.echo(
        f"seed {seed}, step {check.step}/{num_steps}: loss {check.training_loss:.3f}, "
        f"validation loss {check.validation_loss:.3f}, EER {check.validation_eer:.1%}",
        err=True,
    )


def _print(report: Report, by: str, remark: str, paths: list[Path], device: str) -> None:
    rows = getattr(report, _AGAINST[by]).to_pylist()
    console.print_table([_line(row, by) for row in rows])
    typer.echo()
    for run in report.runs:
        result = run.training
        typer.echo(
            f"seed {run.seed}: {result.num_steps} steps on {device}, kept step {result.best_step}, "
            f"{result.num_training_rows:,} rows trained on, "
            f"{result.num_validation_rows:,} validated on"
        )
        if result.augmentations:
            done = ", ".join(f"{name}: {count:,}" for name, count in result.augmentations.items())
            typer.echo(f"  examples by what was done to them: {done}")
        if result.validation_sharpness is not None and run.test_sharpness is not None:
            typer.echo(
                f"  sharpness {result.validation_sharpness:.4g} on validation, "
                f"{run.test_sharpness:.4g} on the test"
            )
    if remark:
        typer.echo(remark)
    for overlap in report.overlaps:
        typer.echo(_warning(overlap))
    for path in paths:
        typer.echo(path)


def _line(row: dict[str, object], by: str) -> dict[str, object]:
    def percent(name: str) -> str:
        value = row[name]
        return f"{value:.2%}".removesuffix("%") if isinstance(value, float) else ""

    low, high = percent("eer_low"), percent("eer_high")
    line = {
        by: row["domain"] or f"({row['scope']})",
        "spoof": row["num_spoof"],
        "bona fide": row["num_bonafide"],
        "EER %": percent("eer"),
        "95 % interval": f"{low} – {high}" if low else "",
    }
    return {**line, "sd over seeds": percent("eer_sd")} if row["eer_sd"] is not None else line


def _warning(overlap: Overlap) -> str:
    return (
        f"note: {overlap.num_values} values of {overlap.column} are in training and test, "
        f"such as {overlap.examples[0]}: the test is not unseen in that respect"
    )
