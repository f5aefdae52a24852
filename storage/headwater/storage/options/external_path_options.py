"""The options that name places outside a table's folder (``CoreOptions.java``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from headwater.storage.errors import Invalid
from headwater.storage.options.option_map import OptionMap

__all__ = ["ExternalPathOptions", "ExternalPathStrategy"]

_PATHS = "data-file.external-paths"
_STRATEGY = "data-file.external-paths.strategy"
_SPECIFIC = "data-file.external-paths.specific-fs"
_WEIGHTS = "data-file.external-paths.weights"
_INDEX_ROOT = "global-index.external-path"


class ExternalPathStrategy(StrEnum):
    """The way in which a place is chosen for a new file."""

    NONE = "none"
    SPECIFIC_FS = "specific-fs"
    ROUND_ROBIN = "round-robin"
    ENTROPY_INJECT = "entropy-inject"
    WEIGHT_ROBIN = "weight-robin"


@dataclass(frozen=True)
class ExternalPathOptions(OptionMap):
    """A table's option map, typed, as those need it who choose places for new files."""

    @property
    def strategy(self) -> ExternalPathStrategy:
        """The way in which a place is chosen; none leaves files in the table's own folder."""
        return self._choice(_STRATEGY, ExternalPathStrategy.NONE)

    @property
    def roots(self) -> Sequence[str]:
        """The places that new data files are put in, as URIs; none for the table's own folder."""
        text = self.raw.get(_PATHS, "")
        if self.strategy is ExternalPathStrategy.NONE or not text.strip():
            return []
        roots = [_uri(_PATHS, part) for part in text.split(",")]
        if self.strategy is not ExternalPathStrategy.SPECIFIC_FS:
            return roots
        wanted = self.raw.get(_SPECIFIC)
        if wanted is None:
            raise Invalid(
                f"'{_STRATEGY}' is '{self.strategy}', so '{_SPECIFIC}' must name a scheme"
            )
        scheme = wanted.strip().lower()
        chosen = [root for root in roots if root.partition(":")[0].lower() == scheme]
        if not chosen:
            raise Invalid(
                f"option '{_PATHS}' has no path of scheme '{wanted}', which '{_SPECIFIC}' names"
            )
        return chosen

    @property
    def weights(self) -> Sequence[int] | None:
        """The end of each place's share of the whole; None when the places have no weights."""
        text = self.raw.get(_WEIGHTS)
        if text is None or self.strategy is not ExternalPathStrategy.WEIGHT_ROBIN:
            return None
        count = len(self.roots)
        if count < 2:
            return None
        parts = [part.strip() for part in text.split(",")]
        if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
            raise Invalid(f"option '{_WEIGHTS}' must be numbers greater than 0, not '{text}'")
        if len(parts) != count:
            raise Invalid(
                f"option '{_WEIGHTS}' has {len(parts)} numbers where '{_PATHS}' has {count} paths"
            )
        return list(accumulate(map(int, parts)))

    @property
    def index_root(self) -> str | None:
        """The place of new index files of the whole table, as a URI; None without one."""
        text = self.raw.get(_INDEX_ROOT, "")
        return _uri(_INDEX_ROOT, text) if text.strip() else None


def _uri(option: str, text: str) -> str:
    path = text.strip().rstrip("/")
    scheme, colon, rest = path.partition(":")
    if not colon or not scheme or "/" in scheme or not rest.startswith("/"):
        raise Invalid(f"option '{option}' must name URIs with a scheme, not '{text.strip()}'")
    return path
