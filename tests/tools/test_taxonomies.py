"""A user's own taxonomy: the forms it may have, and what is wrong with it."""

import json

import pytest

from sie_mcp.catalogue.taxonomy import built_in
from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
PATHS = ["Clothing", "Clothing > Shirts", "Kitchen > Forks"]
WITH_IDS = {"1": "Clothing", "2": "Clothing > Shirts", "3": "Kitchen > Forks"}
FILES = {
    "lines.txt": "# Version 3\n" + "\r\n\n".join(PATHS) + "\n",
    "tight.txt": "Clothing\nClothing>Shirts\n  Kitchen  >  Forks  ",
    "paths.csv": "Clothing\nClothing > Shirts\nKitchen > Forks\n",
    "list.json": json.dumps(PATHS),
    "levels.json": json.dumps([{"path": path.split(" > ")} for path in PATHS]),
}
FILES_WITH_IDS = {
    "plain.csv": "1,Clothing\n2,Clothing > Shirts\n3,Kitchen > Forks\n",
    "header.csv": "note,PATH,Id\nx,Clothing,1\nx,Clothing > Shirts,2\n\nx,Kitchen > Forks,3\n",
    "semicolons.csv": "\ufeffid;path\r\n1;Clothing\r\n2;Clothing > Shirts\r\n3;Kitchen > Forks\r\n",
    "parents;.csv": "id;name;parent\n3;Forks, all;9\n9;Kitchen;\n1;Clothing;\n",
    "tabs.csv": 'id\t"path"\n1\tClothing\n2\tClothing > Shirts\n3\tKitchen > Forks\n',
    "plain.tsv": "1\tClothing\n2\tClothing > Shirts\n3\tKitchen > Forks\n",
    "map.json": json.dumps(WITH_IDS),
    "parents.csv": "id,name,parent\n3,Forks,9\n9,Kitchen,\n1,Clothing,\n",
    "parents.json": json.dumps(
        [
            {"id": 3, "name": "Forks", "parent": 9},
            {"id": 9, "name": "Kitchen"},
            {"id": 1, "name": "A"},
        ]
    ),
    "google.txt": "# Google_Product_Taxonomy_Version: 2021\n1 - A\n9 - Kitchen\n"
    "3 - Kitchen > Forks\n",
    "objects.json": json.dumps([{"id": int(i), "path": p} for i, p in WITH_IDS.items()]),
}


@pytest.mark.parametrize("name", FILES)
async def test_a_file_of_paths_is_a_taxonomy(toolbox: Toolbox, name: str) -> None:
    toolbox.write(name, FILES[name])
    answer = await toolbox.call("classify_taxonomy", texts=["shirts"], taxonomy=name)
    assert answer["taxonomy"] == name and answer["num_categories"] == 3
    assert answer["results"][0]["path"] == "Clothing > Shirts"
    assert "category_id" not in answer["results"][0]


@pytest.mark.parametrize("name", FILES_WITH_IDS)
async def test_a_file_with_ids_gives_them_back(toolbox: Toolbox, name: str) -> None:
    toolbox.write(name, FILES_WITH_IDS[name])
    answer = await toolbox.call("classify_taxonomy", texts=["forks"], taxonomy=name)
    assert answer["results"][0]["category_id"] == "3"
    assert answer["num_categories"] == 3


async def test_a_mark_in_a_name_makes_no_level(toolbox: Toolbox) -> None:
    toolbox.write("a.csv", "id,name,parent\n1,Clothing,\n2,Shirts > 40 cm,1\n")
    answer = await toolbox.call("classify_taxonomy", texts=["shirts"], taxonomy="a.csv")
    assert answer["results"][0]["path"] == "Clothing > Shirts › 40 cm"


async def test_a_semicolon_in_a_path_is_part_of_it(toolbox: Toolbox) -> None:
    toolbox.write("a.csv", "Clothing; all\nClothing; all > Shirts\n")
    answer = await toolbox.call("classify_taxonomy", texts=["shirts"], taxonomy="a.csv")
    assert answer["results"][0]["path"] == "Clothing; all > Shirts"


BROKEN = {
    "nameless.csv": ("id,name,parent\n ,A,\n", "line 2: 'A' has no id; give it one"),
    "noids.csv": ("id,path\n,A\n2,B\n", "line 2 has no id; give ids to all categories or to none"),
    "noids.json": ('{" ": "A"}', "entry 0 has no id; give ids to all categories or to none"),
    "names.csv": (
        "Name\nA\nB\n",
        "names.csv: columns name make no tree; it takes path, id and path",
    ),
    "levels.csv": ("Level 1,Level 2\nA,B\n", "levels.csv: columns level 1, level 2 make no tree"),
    "ids2.csv": ("category_id;category_name;parent_id\n1;A;\n", "make no tree"),
    "twice.txt": ("A\nB\nA\n", "line 3: 'A' is there already, in line 1; keep one"),
    "ids.csv": ("1,A\n1,B\n", "line 2: '1' is there already, in line 1; keep one"),
    "level.txt": ("A > > C\n", "line 1: 'A >  > C' has an empty level; write A > B > C"),
    "end.txt": ("A\nB >\n", "line 2: 'B > ' has an empty level; write A > B > C"),
    "empty.txt": ("# nothing\n\n", "empty.txt holds no categories"),
    "some.json": (
        '[{"id": "1", "path": "A"}, "B"]',
        "some.json: 1 categories have no id; give ids to all or none",
    ),
    "noid.csv": ("path,id\nA,1\nB\n", "line 3: 1 cells; expected id and path"),
    "blank.csv": ("\n\n", "blank.csv holds no categories"),
    "nothing.csv": ("", "nothing.csv is empty (0 bytes)"),
    "bad.json": ("{", "bad.json is not JSON"),
    "deep.json": ("[" * 100_000, "deep.json is not JSON"),
    "number.json": ("3", "number.json: expected ["),
    "tree.json": ('[{"name": "A"}]', 'entry 0: {"name": "A"} is no category; use ['),
    "surrogate.json": ('["\\ud800"]', "entry 0 holds a lone surrogate; send valid Unicode"),
    "levels.txt": (" > ".join("A" * 40), "line 1: 40 levels; the limit is 32"),
    "long.txt": ("A" * 600, "has a name of 600 characters; the limit is 500"),
    "huge.txt": ("\n".join(map(str, range(100_001))), "has more than 100,000 categories; split it"),
    "circle.csv": (
        "id,name,parent\n1,A,2\n2,B,1\n",
        "line 2: its parents go in a circle: '1' > '2'; break it",
    ),
    "orphan.tsv": (
        "id\tname\tparent_id\n1\tA\t7\n",
        "line 2: its parent '7' is not there; add it, or leave the parent out",
    ),
    "same.csv": ("id,name,parent\n1,A,\n1,B,\n", "line 3: '1' is there already, in line 2"),
    "short.csv": ("id,name,parent\n1,A\n", "line 2: 2 cells; expected id, name and parent"),
    "child.json": ('[{"id": "1", "name": 3}]', 'entry 0: {"id": "1", "name": 3} needs an id and'),
    "chain.csv": (
        "id,name,parent\n" + "".join(f"{n},A,{n + 1}\n" for n in range(50)) + "50,A,\n",
        "line 2: more than 32 levels, the limit",
    ),
    "quote.csv": ('1,"A\n', "quote.csv, line"),
    "rows.csv": ("id,title,price\n1,A,2\n", "rows.csv: columns id, title, price make no tree; it"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_taxonomy_is_refused_with_the_place_and_the_reason(
    toolbox: Toolbox, name: str
) -> None:
    content, expected = BROKEN[name]
    toolbox.write(name, content)
    text = await toolbox.error("classify_taxonomy", texts=["a"], taxonomy=name)
    assert expected in text and len(text) < 400


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("shopify.de", "Tiere & Tierbedarf"),
        ("shopify.fr", "Animaux et articles pour animaux de compagnie"),
        ("shopify.ja", "ペット・ペット用品"),
        ("google", "Apparel & Accessories"),
        ("bestbuy", "TV & Home Theater"),
    ],
)
def test_the_built_in_ones_are_whole(name: str, path: str) -> None:
    tree = built_in(name)
    assert len(tree.paths) == {"google": 5_595, "bestbuy": 4_584}.get(name, 10_595)
    assert path in {one[0] for one in tree.paths} and tree.ids
    if name.startswith("shopify"):
        assert tree.ids == built_in("shopify").ids


async def test_a_list_in_the_call_is_checked_by_index(toolbox: Toolbox) -> None:
    text = await toolbox.error("classify_taxonomy", texts=["a"], taxonomy=["A", "B", "A"])
    assert text == "taxonomy[2]: 'A' is there already, in taxonomy[0]; keep one"
    text = await toolbox.error("classify_taxonomy", texts=["a"], taxonomy=[])
    assert text == "taxonomy is empty; send at least one path such as A > B > C"


async def test_a_list_longer_than_the_limit_belongs_into_a_file(toolbox: Toolbox) -> None:
    labels = [f"label {n}" for n in range(2_001)]
    text = await toolbox.error("classify_taxonomy", texts=["a"], taxonomy=labels)
    assert text.startswith("taxonomy has 2,001 paths; the limit is 2,000 in a call; put them in")


async def test_an_unknown_name_is_refused_with_what_is_built_in(toolbox: Toolbox) -> None:
    text = await toolbox.error("classify_taxonomy", texts=["a"], taxonomy="amazon")
    assert text.startswith("no taxonomy 'amazon'; built in: shopify, shopify.de, shopify.fr, ")


async def test_a_taxonomy_outside_the_folders_is_refused(toolbox: Toolbox) -> None:
    text = await toolbox.error("classify_taxonomy", texts=["a"], taxonomy="/etc/services.txt")
    assert text.startswith("taxonomy: '/etc/services.txt' is outside the allowed folders: ")
