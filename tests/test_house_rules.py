"""What the code keeps to: files stay small, and in adapters nothing is written twice."""

import ast
from collections.abc import Iterator
from pathlib import Path

import sie_mcp.adapters

ADAPTERS = Path(sie_mcp.adapters.__file__).parent
MODELS = ADAPTERS / "models"
ROOT = Path(__file__).parents[1]
FOLDERS = ("sie_mcp", "tests", "evals", "examples", "k8s")
MAX_LINES, MAX_LINES_OF_A_MODEL = 300, 250
# As many lines in a row, the same in two files, are one thing written twice.
RUN = 6


def sources() -> list[Path]:
    return sorted(ADAPTERS.rglob("*.py"))


def test_files_of_the_project_stay_small():
    lengths = {
        path.relative_to(ROOT): len(path.read_text("utf-8").splitlines())
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    assert len(lengths) > len(sources())
    assert [path for path, num_lines in lengths.items() if num_lines > MAX_LINES] == []


def test_files_of_models_stay_smaller():
    lengths = {path.name: len(path.read_text().splitlines()) for path in MODELS.rglob("*.py")}
    assert [name for name, num in lengths.items() if num > MAX_LINES_OF_A_MODEL] == []


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
