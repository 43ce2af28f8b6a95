"""`datalake episodes …`: looking at the episodes of a set."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from datalake.cli import console, episode_edits
from datalake.episodes import EpisodeSet, open_episodes
from datalake.recording import Feature

__all__ = ["app"]

app = console.new_app("Look at robot episodes, and change them as whole ones.")

_Name = Annotated[str, typer.Argument(metavar="NAME", help="An episode set.")]
_Version = Annotated[
    int | None, typer.Option(metavar="N", help="A version of the set; the latest if left out.")
]

_LISTED: Final = (
    "episode_id",
    "embodiment",
    "task",
    "split",
    "length",
    "duration_s",
    "success",
    "idle_head",
    "idle_tail",
)
# What is too long for a line; `show` has it.
_LONG: Final = frozenset({"features", "stats", "metadata"})
_FIGURES: Final = ("min", "max", "mean", "std", "q01", "q50", "q99")
_GROUPS_SHOWN: Final = 20


@console.command(app, "list")
def list_(
    session: console.Session,
    name: _Name,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Only episodes for which this holds.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="These columns of the episodes table, in this order."),
    ] = None,
    num_rows: Annotated[
        int | None, typer.Option("--rows", "-n", min=1, help="At most so many episodes.")
    ] = None,
    version: _Version = None,
) -> None:
    """List the episodes of a set, in their order. --json gives all but features and statistics."""
    episodes = open_episodes(session.open_lake(), name, version).episodes
    known = episodes.schema.names
    if columns is not None:
        wanted = [column.strip() for column in columns.split(",")]
    elif session.as_json:
        wanted = [column for column in known if column not in _LONG]
    else:
        wanted = [column for column in _LISTED if column in known]
    rows = episodes.scan(wanted, where=where, limit=num_rows).read_all()
    if session.as_json:
        console.print_json(rows)
    else:
        console.print_table(rows, columns=wanted)


@console.command(app)
def show(
    session: console.Session,
    name: _Name,
    episode: Annotated[
        str | None,
        typer.Argument(metavar="EPISODE", help="The id of one of its episodes."),
    ] = None,
    stats: Annotated[
        bool,
        typer.Option("--stats", help="The statistics of the whole set, which reads its numbers."),
    ] = False,
    version: _Version = None,
) -> None:
    """Describe a set, or one of its episodes.

    Features, tasks, videos and statistics.
    """
    opened = open_episodes(session.open_lake(), name, version)
    if episode is None:
        facts, sections = describe_set(opened)
        if stats:
            sections["stats"] = _set_stats(opened)
    else:
        facts, sections = _describe_episode(opened, episode)
    if session.as_json:
        console.print_json({**facts, **sections})
        return
    console.print_pairs(
        {**facts, **({"num_bytes": console.size(facts["num_bytes"])} if episode is None else {})}
    )
    print_sections(sections)


def print_sections(sections: dict[str, list[dict[str, Any]]]) -> None:
    """Print tables under their names; of long ones the beginning."""
    for title, rows in sections.items():
        if not rows:
            continue
        typer.echo(f"\n{title}")
        shown = rows if title in {"features", "stats"} else rows[:_GROUPS_SHOWN]
        console.print_table([_readable(row) for row in shown])
        if len(rows) > len(shown):
            typer.echo(f"… and {len(rows) - len(shown):,} more (--json lists all)")


def describe_set(opened: EpisodeSet) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """What there is to say of a set: facts, and tables by their titles."""
    from datalake.episodes.summary import summarise_episodes

    summary = summarise_episodes(opened)
    tables = {"episodes": opened.episodes, "frames": opened.frames, "videos": opened.videos}
    versions = opened.episodes.versions()
    facts = {
        "name": opened.name,
        "kind": "episode set",
        "format": opened.episodes.format,
        "version": opened.version,
        "num_versions": len(versions),
        "created_at": versions[0].created_at,
        "changed_at": versions[-1].created_at,
        "num_episodes": summary.num_episodes,
        "num_frames": summary.num_frames,
        "duration_s": summary.duration_s,
        "fps": list(summary.fps),
        "shortest": summary.shortest,
        "longest": summary.longest,
        "num_bytes": summary.num_bytes,
    }
    sections: dict[str, list[dict[str, Any]]] = {
        "features": [_feature(feature) for feature in opened.features],
        "cameras": summary.cameras,
    }
    sections |= {
        f"{key}s": rows
        for key, rows in summary.groups.items()
        if any(row[key] is not None for row in rows)
    }
    sections["tables"] = [
        {
            "table": f"{opened.name}.{part}",
            "version": table.version,
            "num_rows": table.count_rows(),
            "num_bytes": table.num_bytes(),
        }
        for part, table in tables.items()
    ]
    return facts, sections


def _feature(feature: Feature) -> dict[str, Any]:
    return {
        "feature": feature.name,
        "dtype": feature.dtype,
        "shape": list(feature.shape),
        "unit": feature.unit,
        "names": list(feature.names),
    }


def _describe_episode(
    opened: EpisodeSet, episode: str
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    row = opened.episodes.take([opened.index.row_of(episode)]).to_pylist()[0]
    features = [Feature.from_row(each) for each in row.pop("features") or ()]
    sections: dict[str, list[dict[str, Any]]] = {
        "features": [_feature(feature) for feature in features],
        "tasks": row.pop("tasks") or [],
        "videos": row.pop("videos") or [],
        "stats": _stats_rows(row.pop("stats") or [], features),
    }
    return row, sections


def _set_stats(opened: EpisodeSet) -> list[dict[str, Any]]:
    from datalake.episodes.statistics import summarise_set

    stats = [each.as_row() for each in summarise_set(opened)]
    return _stats_rows(stats, list(opened.features))


def _stats_rows(stats: list[dict[str, Any]], features: list[Feature]) -> list[dict[str, Any]]:
    """A row for each element of each feature."""
    named = {feature.name: feature for feature in features}
    rows = []
    for each in stats:
        feature = named.get(each["feature"])
        size = max((len(each[key]) for key in _FIGURES if each.get(key)), default=0)
        names = _element_names(feature, size)
        rows += [
            {
                "feature": each["feature"],
                "element": names[element],
                **{key: each[key][element] if each.get(key) else None for key in _FIGURES},
                "count": each["count"],
            }
            for element in range(size)
        ]
    return rows


def _element_names(feature: Feature | None, size: int) -> list[str]:
    if feature is not None and feature.is_numeric and len(feature.names) == size:
        return list(feature.names)
    if feature is not None and not feature.is_numeric and size == 3:
        return ["red", "green", "blue"]
    return [str(element) for element in range(size)]


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    """The row for a person: bytes with their unit, the first few of many names."""
    readable = dict(row)
    if isinstance(readable.get("num_bytes"), int):
        readable["num_bytes"] = console.size(readable["num_bytes"])
    names = readable.get("names")
    if isinstance(names, list) and len(names) > 6:
        readable["names"] = f"{', '.join(names[:5])}, … ({len(names)})"
    return readable


episode_edits.add_to(app)
