"""What a kind of fault is."""

from collections.abc import Callable
from dataclasses import dataclass

from trial import Trial


@dataclass(frozen=True)
class Kind:
    name: str
    run: Callable[[Trial], None]
    share: int = 1        # of the faults
    launcher: bool = True
    by_hand: bool = True
    isolated: bool = False  # needs a network and mounts of its own
    shapes: tuple = ("small", "medium", "large")

    def modes(self) -> list[bool]:
        return [False] * self.launcher + [True] * self.by_hand
