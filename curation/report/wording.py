"""How a report writes numbers, and the sentences that say what they mean."""

from __future__ import annotations

from typing import Any

from curation.report.analysis import Analysis, ProtocolFindings
from curation.study.comparisons import Unit
from curation.study.results import PROTOCOL_TITLES

__all__ = [
    "as_percent",
    "as_points",
    "budget_text",
    "caveats",
    "counted",
    "how_to_read",
    "in_short",
    "verdicts",
]


def as_percent(fraction: float | None, digits: int = 2) -> str:
    """A fraction as per cent: `3.29 %`; a dash for none."""
    return "–" if fraction is None else f"{100 * fraction:.{digits}f} %"


def as_points(fraction: float | None, *, signed: bool = False) -> str:
    """A difference of fractions in percentage points: `+0.52`; a dash for none."""
    return "–" if fraction is None else f"{100 * fraction:{'+' if signed else ''}.2f}"


def budget_text(budget_rows: int | None) -> str:
    """`600 rows`, or `all rows`."""
    return "all rows" if budget_rows is None else f"{budget_rows:,} rows"


def counted(number: int, noun: str) -> str:
    """`1 seed`, `1,040 trainings`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def verdicts(found: ProtocolFindings, level: float, unit: Unit = "fold") -> list[str]:
    """A sentence for each comparison that shows a difference, and one for those that do not."""
    rows = found.comparisons.table.to_pylist()
    single = sum(row["difference_low"] is None for row in rows)
    shown = [
        row
        for row in rows
        if row["difference_low"] is not None
        and (row["difference_low"] > 0 or row["difference_high"] < 0 or row["p_holm"] <= 1 - level)
    ]
    said = [_verdict(row, 1 - level, len(rows)) for row in shown]
    if single:
        said.append(f"{single} comparisons are over one {unit}: nothing is known of their spread.")
    quiet = len(rows) - single - len(shown)
    if quiet:
        said.append(f"{quiet} of {len(rows)} comparisons show no difference: see the table.")
    return said


def _verdict(row: dict[str, Any], alpha: float, num_comparisons: int) -> str:
    pair = f"{row['arm']} against {row['baseline']}, {budget_text(row['budget_rows'])}"
    sizes = f"{as_percent(row['eer'])} against {as_percent(row['baseline_eer'])}"
    difference = as_points(row["difference"], signed=True)
    low, high = row["difference_low"], row["difference_high"]
    within = f"{as_points(low, signed=True)} to {as_points(high, signed=True)}"
    direction = "lower" if row["difference"] < 0 else "higher"
    if row["p_holm"] <= alpha:
        says = f"{direction}, also after the correction (p = {row['p_holm']:.3g})"
    else:
        why = "cannot be" if row["smallest_p"] * num_comparisons > alpha else "is not"
        says = (
            f"{direction} by its interval, but {why} significant after the correction "
            f"(p = {row['p_holm']:.3g})"
        )
    return f"{pair}: {sizes}, {difference} points ({within}): {says}."


def in_short(analysis: Analysis) -> list[str]:
    """The lowest mean of each protocol and budget, and how many comparisons show anything."""
    found = []
    for each in analysis.protocols:
        title = PROTOCOL_TITLES[each.protocol]
        rows = each.means.table.to_pylist()
        budgets = {row["budget_rows"] for row in rows}
        for budget in sorted(budgets, key=lambda budget: (budget is None, budget or 0)):
            at = sorted((row["eer"], row["arm"]) for row in rows if row["budget_rows"] == budget)
            rest = "; ".join(f"{arm} {as_percent(eer)}" for eer, arm in at[1:4])
            more = f" (then {rest}{'; …' if len(at) > 4 else ''})" if rest else ""
            found.append(
                f"{title}, {budget_text(budget)}: lowest mean EER {as_percent(at[0][0])} by "
                f"{at[0][1]}{more}."
            )
        pairs = each.comparisons.table.to_pylist()
        if pairs:
            alpha = 1 - analysis.level
            lower = sum((row["difference_high"] or 0) < 0 for row in pairs)
            higher = sum((row["difference_low"] or 0) > 0 for row in pairs)
            significant = sum(row["p_holm"] <= alpha for row in pairs)
            found.append(
                f"{title}: of {len(pairs)} comparisons with baselines, the interval shows a lower "
                f"EER in {lower} and a higher one in {higher}; {significant} are significant after "
                "the correction."
            )
    return found


def how_to_read(analysis: Analysis) -> list[str]:
    """What the numbers are."""
    return [
        "EER: equal error rate, a fraction shown in per cent; lower is better. Half of all trials "
        "wrong is 50 %.",
        "A mean is over folds of each fold's mean over its seeds: every fold counts the same.",
        f"Intervals ({analysis.level:.0%}) are over folds: what another generator or source might "
        "show. The standard deviation over seeds beside them is the noise of training alone. The "
        "bootstrap interval (BCa) draws whole folds; of five or fewer it is too narrow.",
        f"Differences are paired by fold and seed. p is from the exact sign-flip test over "
        f"{analysis.over}s, two-sided, and Holm's correction covers all comparisons of a protocol; "
        "the smallest p is what the test could give if all of them agreed.",
        "N_eff: exp(entropy) of the domains' shares of the draws, the number of equal domains that "
        "would be as diverse.",
    ]


def caveats(analysis: Analysis) -> list[str]:
    """What a reader should hold against the numbers: of the design first, then of this run."""
    record, found = analysis.record, []
    protocols = {each.protocol for each in analysis.protocols}
    if "logo" in protocols:
        found.append(
            "Leave one generator out: the folds share their bona fide test rows and most of their "
            "training rows, so they are less independent than the intervals assume, and they say "
            "nothing of other speakers or recordings."
        )
    if protocols & {"loso", "cross"}:
        found.append(
            "Sources differ in language, channel, generators and size at once: a fold that is hard "
            "does not say why."
        )
    if len(analysis.seeds) < 5:
        found.append(
            f"With {counted(len(analysis.seeds), 'seed')}, fewer than five, the noise of training "
            "is hardly known."
        )
    if not record.mixtures.num_rows:
        found.append("What the methods took of each domain is not in the record.")
    found += [
        f"Fold left out ({each['protocol']}, {each['fold']}): {each['reason'].rstrip('.')}."
        for each in record.facts.get("skipped_folds", ())
    ]
    if record.failures:
        shown = "; ".join(record.failures[:3]) + ("; …" if len(record.failures) > 3 else "")
        found.append(f"{len(record.failures):,} cells failed and are missing: {shown}.")
    for each in analysis.protocols:
        title = PROTOCOL_TITLES[each.protocol]
        remarks = dict.fromkeys((*each.means.remarks, *each.comparisons.remarks))
        found += [f"{title}: {remark}" for remark in remarks]
    found += list(record.remarks)
    return found
