"""`datalake episodes …`: changing the episodes of a set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import typer

from datalake.cli import console
from datalake.cli.pairs import read_pairs
from datalake.episodes import open_episodes
from datalake.episodes.operations import Change, SplitRule
from datalake.errors import InputError

__all__ = ["add_to"]

_REFUSED: Final = 3
_EPISODES_SHOWN: Final = 20
_PAST: Final = {
    "add": "added",
    "change": "changed",
    "delete": "deleted",
    "drop": "dropped",
    "measure": "measured",
    "rename": "renamed",
    "restore": "restored",
    "split": "split",
    "trim": "trimmed",
}

_Name = Annotated[str, typer.Argument(metavar="NAME", help="An episode set.")]
_Ids = Annotated[
    list[str] | None, typer.Argument(metavar="[EPISODE]…", help="The ids of episodes.")
]
_Where = Annotated[
    str | None,
    typer.Option(metavar="SQL", help="The episodes for which this holds, in place of ids."),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


def delete(
    session: console.Session,
    name: _Name,
    episodes: _Ids = None,
    where: _Where = None,
    dry_run: _DryRun = False,
) -> None:
    """Delete episodes.

    With them go their frames, and the video files that no other episode is in.
    """
    from datalake.episodes import operations

    change = operations.delete(
        session.open_lake(), name, episode_ids=episodes or None, where=where, dry_run=dry_run
    )
    _tell(
        session,
        [change],
        "delete",
        f"{_count(change.num_episodes, 'episode')} with {_count(change.num_frames, 'frame')}"
        f"{_videos(change)}",
    )


def trim(
    session: console.Session,
    name: _Name,
    episodes: _Ids = None,
    where: _Where = None,
    idle: Annotated[
        bool,
        typer.Option("--idle", help="Cut what comes before the robot moves and after it stopped."),
    ] = False,
    keep: Annotated[
        int, typer.Option(min=0, metavar="FRAMES", help="Leave so many idle frames at each end.")
    ] = 0,
    head: Annotated[
        int, typer.Option(min=0, metavar="FRAMES", help="Cut so many off each head.")
    ] = 0,
    tail: Annotated[
        int, typer.Option(min=0, metavar="FRAMES", help="Cut so many off each tail.")
    ] = 0,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="EPISODE=START:STOP",
            help="Keep these frames of an episode; may be repeated.",
        ),
    ] = None,
    dry_run: _DryRun = False,
) -> None:
    """Cut frames off heads and tails.

    Times start at zero again; no video byte is touched. Give --idle, or --head and --tail, or
    --range. Without ids and --where all episodes are trimmed.
    """
    from datalake.episodes import operations

    spans = read_pairs("A range", ranges or (), expected="EPISODE=START:STOP")
    change = operations.trim(
        session.open_lake(),
        name,
        idle=idle,
        keep=keep,
        head=head,
        tail=tail,
        ranges={each: _range(span) for each, span in spans.items()} if ranges else None,
        episode_ids=episodes or None,
        where=where,
        dry_run=dry_run,
    )
    still = change.details["num_without_motion"]
    if not session.as_json and change.num_episodes:
        rows = change.details["episodes"]
        console.print_table(rows[:_EPISODES_SHOWN])
        if len(rows) > _EPISODES_SHOWN:
            typer.echo(f"… and {len(rows) - _EPISODES_SHOWN:,} more (--json lists all)")
    _tell(
        session,
        [change],
        "trim",
        f"{_count(change.num_frames, 'frame')} off {_count(change.num_episodes, 'episode')}"
        + (f"; in {_count(still, 'episode')} nothing moves" if still else ""),
    )


def merge(
    session: console.Session,
    sources: Annotated[list[str], typer.Argument(metavar="NAME…", help="Episode sets.")],
    into: Annotated[
        str,
        typer.Option("--into", metavar="NAME", help="The set that gets them; made if need be."),
    ],
    union: Annotated[
        bool,
        typer.Option("--union", help="Take sets that differ; what one lacks is null there."),
    ] = False,
    prefix: Annotated[
        bool, typer.Option("--prefix", help="Put <set>/ before the ids of what comes in.")
    ] = False,
    dry_run: _DryRun = False,
) -> None:
    """Add the episodes of sets to another set. The sets stay; what differs is refused unasked."""
    from datalake.episodes import operations

    change = operations.merge(
        session.open_lake(), sources, into, union=union, prefix=prefix, dry_run=dry_run
    )
    _tell(
        session,
        [change],
        "add",
        f"{_count(change.num_episodes, 'episode')} with {_count(change.num_frames, 'frame')}"
        f"{_videos(change)}",
    )


def split(
    session: console.Session,
    name: _Name,
    fractions: Annotated[
        str | None,
        typer.Option(metavar="A=.8,B=.2", help="Parts of the episodes, by hash; together 1."),
    ] = None,
    ranges: Annotated[
        str | None,
        typer.Option(
            metavar="A=0:80,B=80:99", help="Positions in the set; A=0:9,A=20:30 for several."
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="A split for each source, task, embodiment, …"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives another choice.")] = 0,
    together: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Keep episodes with one value together (fractions)."),
    ] = None,
    into: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPLIT=NAME",
            help="Copy each split into a new set, in place of writing the column `split`.",
        ),
    ] = None,
    dry_run: _DryRun = False,
) -> None:
    """Split a set, in a column or into new sets.

    Into the column `split` of its episodes, or into sets of their own (--into).
    """
    from datalake.episodes import operations

    changes = operations.split(
        session.open_lake(),
        name,
        _rule(fractions, ranges, by, seed, together),
        into=read_pairs("A new set", into, expected="SPLIT=NAME") if into else None,
        dry_run=dry_run,
    )
    if not session.as_json:
        console.print_table(
            [
                {
                    "split": change.details["split"],
                    "num_episodes": change.num_episodes,
                    "num_frames": change.num_frames,
                    **({"set": change.name} if into else {}),
                }
                for change in changes
            ],
            columns=["split", "num_episodes", "num_frames", *(["set"] if into else [])],
        )
    number = sum(change.num_episodes for change in changes)
    _tell(session, changes, "split", _count(number, "episode"), makes_sets=bool(into))


def task(
    session: console.Session,
    name: _Name,
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT|OLD=NEW…",
            help="The new text of the chosen episodes' tasks; or old texts and their new ones.",
        ),
    ],
    episodes: Annotated[
        list[str] | None,
        typer.Option("--episode", metavar="ID", help="An episode; may be repeated."),
    ] = None,
    where: _Where = None,
    dry_run: _DryRun = False,
) -> None:
    """Change the text of tasks.

    Of the whole set (OLD=NEW), or of some episodes (TEXT). Frames are not touched.
    """
    from datalake.episodes import operations

    change = operations.set_task(
        session.open_lake(),
        name,
        _texts(texts, has_choice=bool(episodes) or where is not None),
        episode_ids=episodes or None,
        where=where,
        dry_run=dry_run,
    )
    _tell(session, [change], "change", f"the task of {_count(change.num_episodes, 'episode')}")


def rename_feature(
    session: console.Session,
    name: _Name,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The feature.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
) -> None:
    """Give a feature another name, in all episodes."""
    from datalake.episodes import operations

    change = operations.rename_feature(session.open_lake(), name, old, new)
    _tell(session, [change], "rename", f"{old} to {new}")


def drop_feature(
    session: console.Session,
    name: _Name,
    features: Annotated[list[str], typer.Argument(metavar="FEATURE…", help="The features.")],
    dry_run: _DryRun = False,
) -> None:
    """Drop features from all episodes.

    With a camera go its video files.
    """
    from datalake.episodes import operations

    change = operations.drop_feature(session.open_lake(), name, features, dry_run=dry_run)
    dropped = ", ".join(change.details["features"])
    _tell(session, [change], "drop", f"{dropped}{_videos(change)}")


def stats(
    session: console.Session,
    name: _Name,
    episodes: _Ids = None,
    where: _Where = None,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Measure pictures too, which decodes some of them.")
    ] = False,
) -> None:
    """Measure statistics and quality again."""
    from datalake.episodes import operations

    change = operations.recompute_stats(
        session.open_lake(), name, episode_ids=episodes or None, where=where, pictures=pictures
    )
    _tell(session, [change], "measure", _count(change.num_episodes, "episode"))


def restore(
    session: console.Session,
    name: _Name,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="A version of the set.")],
) -> None:
    """Make an earlier version of a set the latest again. Undoes what came after it."""
    from datalake.episodes import operations

    change = operations.restore(session.open_lake(), name, version)
    _tell(session, [change], "restore", f"version {version}")


def validate(
    session: console.Session,
    name: _Name,
    episodes: _Ids = None,
    where: _Where = None,
    tolerance: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="How far a timestamp may be off; LeRobot's 1e-4."),
    ] = None,
    max_findings: Annotated[
        int | None,
        typer.Option(min=0, help="Show so many findings of a kind (3; all with --json)."),
    ] = None,
) -> None:
    """Say what is wrong with the episodes of a set. Reads no video. Exits 3 if there are errors."""
    from datalake.cli.findings import Tally, print_findings
    from datalake.episodes import operations
    from datalake.episodes.validation import Checks
    from datalake.recording import Severity

    lake = session.open_lake()
    checks = Checks() if tolerance is None else Checks(timestamp_tolerance_s=tolerance)
    tally = Tally(max_findings if max_findings is not None or session.as_json else 3)
    chosen = open_episodes(lake, name).rows(episode_ids=episodes or None, where=where)
    tally.num_episodes = len(chosen)
    for finding in operations.validate(
        lake, name, episode_ids=episodes or None, where=where, checks=checks
    ):
        tally.add(finding)
    if session.as_json:
        console.print_json({"name": name, **tally.as_dict()})
    else:
        print_findings(name, tally)
    if tally.num(Severity.ERROR):
        raise typer.Exit(_REFUSED)


_EDITS: Final[dict[str, Callable[..., None]]] = {
    "delete": delete,
    "trim": trim,
    "merge": merge,
    "split": split,
    "task": task,
    "rename-feature": rename_feature,
    "drop-feature": drop_feature,
    "stats": stats,
    "validate": validate,
    "restore": restore,
}


def add_to(app: typer.Typer) -> None:
    """Add the commands that change episodes."""
    for name, function in _EDITS.items():
        console.command(app, name)(function)


def _tell(
    session: console.Session,
    changes: Sequence[Change],
    verb: str,
    what: str,
    *,
    makes_sets: bool = False,
) -> None:
    """Print what was done, or would be: `g1: deleted 2 episodes … (version 5; undo: …)`."""
    if session.as_json:
        found = [change.as_dict() for change in changes]
        console.print_json(found if verb == "split" else found[0])
        return
    last = changes[-1] if changes else None
    if last is None or not (last.is_made or (last.dry_run and last.num_episodes)):
        typer.echo("There is nothing to do, and no new version")
    elif last.dry_run:
        typer.echo(f"{last.name}: would {verb} {what}; nothing is done (--dry-run)")
    elif makes_sets:
        typer.echo(f"{_PAST[verb]} {what} into {_count(len(changes), 'set')}")
    else:
        undo = ""
        if last.version_before is not None:
            undo = f"; undo: datalake episodes restore {last.name} {last.version_before}"
        typer.echo(f"{last.name}: {_PAST[verb]} {what} (version {last.version}{undo})")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _videos(change: Change) -> str:
    if not change.num_videos:
        return ""
    size = f" ({console.size(change.num_video_bytes)})" if change.num_video_bytes else ""
    return f", and {_count(change.num_videos, 'video file')}{size}"


def _range(text: str) -> tuple[int, int]:
    start, colon, stop = text.partition(":")
    try:
        if colon:
            return int(start), int(stop)
    except ValueError:
        pass
    raise InputError("A range cannot be read", expected="START:STOP, two numbers", found=text)


def _rule(
    fractions: str | None, ranges: str | None, by: str | None, seed: int, together: str | None
) -> SplitRule:
    from datalake.episodes.operations import Fractions, Ranges, Values

    if sum(given is not None for given in (fractions, ranges, by)) != 1:
        raise InputError("How to split is not clear", expected="one of --fractions, --ranges, --by")
    if fractions is not None:
        pairs = read_pairs("A fraction", fractions.split(","), expected="SPLIT=FRACTION")
        return Fractions(
            {each.strip(): _number(part) for each, part in pairs.items()}, seed, together
        )
    if together is not None:
        raise InputError("--together goes with --fractions")
    if by is not None:
        return Values(by)
    parts: dict[str, list[tuple[int, int]]] = {}
    for each in (ranges or "").split(","):
        for split_name, span in read_pairs("A range", [each], expected="SPLIT=START:STOP").items():
            parts.setdefault(split_name.strip(), []).append(_range(span))
    return Ranges(parts)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError("A fraction cannot be read", expected="a number", found=text) from None


def _texts(texts: Sequence[str], *, has_choice: bool) -> Any:
    if has_choice and len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    if not all("=" in text for text in texts):
        raise InputError(
            "The tasks cannot be changed like this",
            expected="OLD=NEW for the whole set, or one TEXT and --episode or --where",
            found=" ".join(map(repr, texts)),
        )
    return read_pairs("A change of a task's text", texts)
