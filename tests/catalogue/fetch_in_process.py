"""Run as a program: fetches a catalogue's first entry from a stub index and tells what happens.

Arguments: catalogue file, cache folder, index URL. Prints each notice, how many bytes are done, and
at last the folder or the error.
"""

import sys
from pathlib import Path

from sie_mcp.catalogue.fetch import FetchOptions, fetch_entry
from sie_mcp.catalogue.files import load_catalogue
from sie_mcp.errors import SieError


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    catalogue_file, cache_dir, index_url = sys.argv[1:]
    entry = load_catalogue(Path(catalogue_file)).models[0]
    try:
        options = FetchOptions(
            index_url=index_url,
            timeout_s=30,
            notice=say,
            progress=lambda file, done, total: say(f"done {done}"),
        )
        say(f"folder {fetch_entry(entry, Path(cache_dir), options=options)}")
    except SieError as error:
        say(f"error {error}")
