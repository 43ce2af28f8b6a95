"""How many bad episodes a run puts up with, and what it says when it does not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from datalake.errors import InputError, LakeError, StoppedError
from datalake.pipelines.episodes.refused import RefusedEpisode
from datalake.pipelines.episodes.settings import EpisodeSettings
from datalake.pipelines.patience import is_hopeless
from datalake.uri import Location

__all__ = ["Tolerance"]


class Tolerance:
    """Counts the episodes of a run and the bad ones among them."""

    def __init__(
        self, settings: EpisodeSettings, set_name: str, root: Location, num_pending: int
    ) -> None:
        self.num_bad = 0
        self._num_seen = 0
        self._settings = settings
        self._set_name = set_name
        self._root = root
        self._num_pending = num_pending
        self._reasons: Counter[str] = Counter()
        self._first: RefusedEpisode | None = None

    def see(
        self, num_episodes: int, bad: Sequence[RefusedEpisode], *, kept: str
    ) -> LakeError | None:
        """Count episodes that were dealt with. Returns the error that ends the run, if it must.

        Args:
            num_episodes: how many were.
            bad: those of them that are refused.
            kept: what remains if the run ends here, for the message.
        """
        self._num_seen += num_episodes
        self.num_bad += len(bad)
        self._reasons.update(str(episode.reason) for episode in bad)
        if not bad:
            return None
        self._first = self._first or bad[0]
        if self._settings.on_error == "raise":
            return self._bad_episode(bad[0])
        limit = self._settings.max_bad_fraction
        if limit is None or not is_hopeless(self.num_bad, self._num_seen, self._num_pending, limit):
            return None
        return self._stopped(kept)

    def _bad_episode(self, episode: RefusedEpisode) -> InputError:
        first = episode.findings[0]
        return InputError(
            f"An episode cannot be ingested [{first.reason}]",
            where=f"{self._root}: {first.origin or episode.episode_id}",
            found=str(episode),
            fix="Mend it and run the same command again, or use --on-error quarantine",
        )

    def _stopped(self, kept: str) -> StoppedError:
        # Rounded up, so that going on with the fraction that is named does go on.
        fraction = math.ceil(1000 * self.num_bad / self._num_pending) / 1000
        reasons = ", ".join(f"{num:,} {reason}" for reason, num in self._reasons.most_common())
        return StoppedError(
            "The ingest stopped, as too many episodes are bad",
            where=str(self._root),
            expected=f"at most a fraction of {self._settings.max_bad_fraction:g}",
            found=f"{self.num_bad:,} bad of {self._num_seen:,} seen and {self._num_pending:,}"
            f" in all ({reasons}), such as {self._first}; {kept}",
            fix=f"See all with: datalake check {self._root}. Mend the files and run the same"
            " command again, which goes on where it stopped; or go on as it is with"
            f" --max-bad-fraction {fraction:g}" + (" or more" if fraction < 1 else ""),
        )
