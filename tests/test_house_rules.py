"""What the code of adapters keeps to: files stay small, and nothing is written twice."""

import ast
from collections.abc import Iterator
from pathlib import Path

import sie_mcp.adapters

ADAPTERS = Path(sie_mcp.adapters.__file__).parent
MODELS = ADAPTERS / "models"
MAX_LINES, MAX_LINES_OF_A_MODEL = 300, 250
# As many lines in a row, the same in two files, are one thing written twice.
RUN = 6


def sources() -> list[Path]:
    return sorted(ADAPTERS.rglob("*.py"))


def test_files_stay_small():
    too_long = []
    for path in sources():
        limit = MAX_LINES_OF_A_MODEL if path.is_relative_to(MODELS) else MAX_LINES
        num_lines = len(path.read_text().splitlines())
        if num_lines > limit:
            too_long.append(f"{path.relative_to(ADAPTERS)}: {num_lines} lines, of {limit}")
    assert not too_long, "\n".join(too_long)


def test_no_two_files_share_six_lines_in_a_row():
    first: dict[tuple[str, ...], str] = {}
    repeats = []
    for path in sources():
        seen = {}
        for line, window in runs(path.read_text()):
            place = f"{path.relative_to(ADAPTERS)}:{line}"
            if window in first:
                repeats.append(f"{place} repeats {first[window]}: {window[0]!r}")
            seen.setdefault(window, place)
        first = seen | first
    assert not repeats, "\n".join(repeats)


def test_a_repeat_is_found_behind_blank_lines_comments_and_docstrings():
    plain = "\n".join(f"a{n} = {n}" for n in range(RUN))
    dressed = 'import a\n\ndef f():\n    """b\n\n    c"""\n    # d\n' + "\n\n".join(
        f"    a{n} = {n}" for n in range(RUN)
    )
    assert {window for _, window in runs(plain)} <= {window for _, window in runs(dressed)}


def runs(source: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield each run of lines that count, and where it begins."""
    skipped = _imports_and_docstrings(source)
    lines = [
        (number, line.strip())
        for number, line in enumerate(source.splitlines(), start=1)
        if number not in skipped and line.strip() and not line.strip().startswith("#")
    ]
    for place in range(len(lines) - RUN + 1):
        window = lines[place : place + RUN]
        yield window[0][0], tuple(line for _, line in window)


def _imports_and_docstrings(source: str) -> set[int]:
    """Return the numbers of lines that files may share."""
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Import | ast.ImportFrom) or is_text:
            skipped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return skipped
