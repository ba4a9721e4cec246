"""What became of an input: every record read is kept or rejected, and by which reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts of one input; ``read == ok + sum(rejected.values())`` when a reader is done.

    Attributes
    ----------
    read, ok
        Records found, records kept.
    rejected
        Records dropped, by reason.
    noted
        What was kept but changed or doubtful (a cut line, a folded repeat), by reason; not part of the sum.
    hints
        Sentences for the user, each once.
    """

    read: int = 0
    ok: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    noted: Counter[str] = field(default_factory=Counter)
    hints: list[str] = field(default_factory=list)

    def reject(self, reason: str, n: int = 1) -> None:
        """Count n records that were read and are not kept."""
        if n:
            self.rejected[reason] += n

    def note(self, reason: str, n: int = 1) -> None:
        """Count n records that are kept with a change."""
        if n:
            self.noted[reason] += n

    def hint(self, sentence: str) -> None:
        """Say something to the user once."""
        if sentence not in self.hints:
            self.hints.append(sentence)

    def keep(self, n: int = 1) -> None:
        """Count n records as read and kept."""
        self.read += n
        self.ok += n

    def drop(self, reason: str, n: int = 1) -> None:
        """Count n records as read and not kept."""
        self.read += n
        self.reject(reason, n)

    def add(self, other: Tally) -> None:
        """Take over another's counts."""
        self.read += other.read
        self.ok += other.ok
        self.rejected.update(other.rejected)
        self.noted.update(other.noted)
        for sentence in other.hints:
            self.hint(sentence)
