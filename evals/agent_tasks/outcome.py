"""What a task cost and how well it was done, both ways."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """One task, done as one session.

    Attributes:
        task: What was asked, in words.
        tools: The tools that were called.
        measure: What both qualities are.
        plain_tokens: Read by grep and reading files.
        plain_quality: How well that did.
        tools_tokens: Read with our tools, the definitions of those that were called included.
        tools_quality: How well that did.
        first_quality: How well the first call of each question did, before any other was needed.
        ceiling: What a perfect reader gets who reads everything, where plain reading stopped
            as soon as it was as good as the tools; None where it did not stop for that.
        ceiling_tokens: What reading everything costs.
    """

    task: str
    tools: list[str]
    measure: str
    plain_tokens: int
    plain_quality: float
    tools_tokens: int
    tools_quality: float
    first_quality: float | None = None
    ceiling: float | None = None
    ceiling_tokens: int | None = None

    @property
    def ratio(self) -> float:
        """How many times fewer tokens."""
        return self.plain_tokens / self.tools_tokens

    @property
    def is_as_good(self) -> bool:
        """Whether the tools did at least as well as the reading they are compared with."""
        return self.tools_quality >= self.plain_quality - 1e-9

    @property
    def is_below_ceiling(self) -> bool:
        """Whether a perfect reader of everything does better."""
        return self.ceiling is not None and self.tools_quality < self.ceiling
