"""What a reader counts: nothing that was read leaves without a count."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts of one input; ``read`` is always ``ok`` plus all that was rejected.

    Attributes
    ----------
    ok
        Samples or log lines handed on.
    rejected
        How many were not, by reason.
    notes
        Remarks for the user that are no rejection (a cut line, an assumed zone), with counts.
    """

    ok: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def read(self) -> int:
        """All that was seen: kept and rejected."""
        return self.ok + self.rejected.total()

    def keep(self, count: int = 1) -> None:
        """Count what is handed on."""
        self.ok += count

    def reject(self, reason: str, count: int = 1) -> None:
        """Count what is not handed on, by reason."""
        if count:
            self.rejected[reason] += count

    def note(self, remark: str, count: int = 1) -> None:
        """Count a remark."""
        if count:
            self.notes[remark] += count

    def add(self, other: Tally) -> None:
        """Take over another's counts."""
        self.ok += other.ok
        self.rejected.update(other.rejected)
        self.notes.update(other.notes)
