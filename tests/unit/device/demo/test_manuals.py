"""Manuals: downloading them with the programs of Debian, which are replaced by small scripts here,
which files are pages, and generated ones."""

import gzip
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.cli.demo_devices import MANUALS
from foltr.core.errors import Mistake
from foltr.device.demo.anchors import links_between, queries_from
from foltr.device.demo.generated_manuals import OBJECTS, generated
from foltr.device.demo.manuals import PACKAGES, fetch, pages_of
from foltr.device.demo.manuals import _is_page as is_manual_page

APT_GET = """#!/bin/sh
# the last argument is the package; an archive holds the folder where its content is
for name; do :; done
echo "$name" >> "{store}/asked"
[ -e "{store}/offline" ] && { echo "E: Failed to fetch: Could not resolve 'debian'" >&2; exit 1; }
[ -d "{store}/$name" ] || { echo "W: noise" >&2; echo "E: Unable to locate package" >&2; exit 1; }
printf '%s' "{store}/$name" > "$name"_1.0_all.deb
"""
APT_CACHE = """#!/bin/sh
cat "{store}/pkgnames"
"""
DPKG_DEB = """#!/bin/sh
source=$(cat "$2")
case "$1" in
-x) [ -e "$source/damaged" ] && { echo "dpkg-deb: error: damaged" >&2; exit 2; }
    mkdir -p "$3"; cp -R "$source/tree/." "$3" ;;
-f) [ ! -e "$source/depends" ] || cat "$source/depends" ;;
esac
"""
TEXT = "This sentence is about something, and it is there so that the page has enough text. " * 4
HTML = "<html><head><title>{0}</title></head><body><h1>{0}</h1><p>{0}. {1}</p></body></html>"


def manual_page(title: str) -> str:
    return HTML.format(title, TEXT)


@pytest.fixture
def manual_store(tmp_path, monkeypatch) -> Path:
    """A folder of packages that the replaced programs offer."""
    store, programs = tmp_path / "store", tmp_path / "programs"
    store.mkdir()
    programs.mkdir()
    for name, text in (("apt-get", APT_GET), ("apt-cache", APT_CACHE), ("dpkg-deb", DPKG_DEB)):
        (programs / name).write_text(text.replace("{store}", str(store)))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return store


def offer_manual(store: Path, name: str, files: dict[str, str | bytes], depends: str = "") -> None:
    (store / name / "tree").mkdir(parents=True)
    for path, content in files.items():
        place = store / name / "tree" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    (store / name / "depends").write_text(depends)


def fetch_manuals(tmp_path: Path, *packages: str, installed: str = "none"):
    told: list[str] = []
    found = fetch(packages, tmp_path / "manuals", told.append, tmp_path / installed)
    missing = dict(line.split(": missing, because ") for line in told if ": missing" in line)
    return SimpleNamespace(found=found, missing=missing), told


def asked_packages(store: Path) -> list[str]:
    return (store / "asked").read_text().split()


def kept_files(folder: Path) -> set[str]:
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    return files - {PACKAGES}


def test_only_the_html_of_a_package_is_kept(tmp_path, manual_store):
    pages = {"doc/a.html": "A", "doc/b.HTM": "B", "doc/c.png": "C", "bin/html": "D"}
    offer_manual(manual_store, "some-doc", pages)
    found, _ = fetch_manuals(tmp_path, "some-doc")
    assert found.missing == {}
    assert found.found == {"some-doc": tmp_path / "manuals" / "some-doc"}
    assert kept_files(found.found["some-doc"]) == {"doc/a.html", "doc/b.HTM"}
    assert (found.found["some-doc"] / PACKAGES).read_text() == "some-doc_1.0_all.deb\n"
    assert list((tmp_path / "manuals").iterdir()) == [tmp_path / "manuals" / "some-doc"]


def test_a_compressed_page_is_kept_without_compression(tmp_path, manual_store):
    offer_manual(manual_store, "some-doc", {"a.html.gz": gzip.compress(b"plain text")})
    found, _ = fetch_manuals(tmp_path, "some-doc")
    assert (found.found["some-doc"] / "a.html").read_bytes() == b"plain text"
    assert kept_files(found.found["some-doc"]) == {"a.html"}


def test_a_damaged_compressed_page_does_not_stop_the_others(tmp_path, manual_store):
    whole = gzip.compress(b"some text" * 1000)
    files = {"cut.html.gz": whole[:30], "none.html.gz": b"no gzip", "a.html": "A"}
    offer_manual(manual_store, "some-doc", files)
    found, _ = fetch_manuals(tmp_path, "some-doc")
    assert (found.found["some-doc"] / "a.html").read_text() == "A"


def test_a_link_to_another_folder_of_the_machine_is_not_kept(tmp_path, manual_store):
    offer_manual(manual_store, "some-doc", {"a.html": "A"})
    tree = manual_store / "some-doc" / "tree"
    (tree / "same.html").symlink_to("a.html")
    (tree / "away.html").symlink_to("/etc/hostname")
    found, _ = fetch_manuals(tmp_path, "some-doc")
    assert kept_files(found.found["some-doc"]) == {"a.html", "same.html"}


def test_a_manual_that_is_there_is_not_downloaded_again(tmp_path, manual_store):
    offer_manual(manual_store, "some-doc", {"a.html": "A"})
    fetch_manuals(tmp_path, "some-doc", "some-doc")
    found, told = fetch_manuals(tmp_path, "some-doc")
    assert list(found.found) == ["some-doc"]
    assert told == []
    assert asked_packages(manual_store) == ["some-doc"]


def test_a_metapackage_stands_for_the_documentation_that_it_depends_on(tmp_path, manual_store):
    depends = "adduser (>= 3), some-doc-15 (= 1.0), libjs-sphinxdoc"
    offer_manual(manual_store, "some-doc", {"copyright": "C"}, depends)
    offer_manual(manual_store, "some-doc-15", {"a.html": "A"})
    found, _ = fetch_manuals(tmp_path, "some-doc")
    assert kept_files(found.found["some-doc"]) == {"a.html"}
    assert asked_packages(manual_store) == ["some-doc", "some-doc-15"]


def test_metapackages_that_depend_on_each_other_have_an_end(tmp_path, manual_store):
    offer_manual(manual_store, "one-doc", {"copyright": "C"}, "two-doc")
    offer_manual(manual_store, "two-doc", {"copyright": "C"}, "one-doc")
    found, _ = fetch_manuals(tmp_path, "one-doc")
    assert "no HTML" in found.missing["one-doc"]


def test_a_star_stands_for_the_newest_version_that_can_be_had(tmp_path, manual_store):
    names = "lib9-doc\nlib10-doc\nlib10x-doc\nlib11-doc\nlibz-doc\n"
    (manual_store / "pkgnames").write_text(names)
    offer_manual(manual_store, "lib9-doc", {"old.html": "9"})
    offer_manual(manual_store, "lib10-doc", {"new.html": "10"})  # apt knows 11, and has it not
    found, _ = fetch_manuals(tmp_path, "lib*-doc")
    assert found.found == {"lib*-doc": tmp_path / "manuals" / "lib-doc"}
    assert kept_files(tmp_path / "manuals" / "lib-doc") == {"new.html"}
    assert asked_packages(manual_store) == ["lib11-doc", "lib10-doc"]


def test_a_star_that_fits_no_package_is_reported(tmp_path, manual_store):
    (manual_store / "pkgnames").write_text("other-doc\n")
    found, _ = fetch_manuals(tmp_path, "lib*-doc")
    assert "lib*-doc" in found.missing["lib*-doc"]


def test_a_missing_package_is_reported_and_the_others_are_had(tmp_path, manual_store):
    offer_manual(manual_store, "some-doc", {"a.html": "A"})
    found, told = fetch_manuals(tmp_path, "other-doc", "some-doc")
    assert list(found.found) == ["some-doc"]
    assert found.missing == {"other-doc": "apt-get says: E: Unable to locate package"}
    assert any("other-doc: missing" in line for line in told)


@pytest.mark.parametrize("damage", ["damaged", "no pages"])
def test_a_package_that_cannot_be_used_leaves_nothing_behind(tmp_path, manual_store, damage):
    offer_manual(manual_store, "some-doc", {"a.html" if damage == "damaged" else "a.txt": "A"})
    if damage == "damaged":
        (manual_store / "some-doc" / "damaged").touch()
    found, _ = fetch_manuals(tmp_path, "some-doc")
    assert damage.replace("pages", "HTML") in found.missing["some-doc"]
    assert list((tmp_path / "manuals").iterdir()) == []


def test_an_interruption_leaves_nothing_behind(tmp_path, manual_store):
    offer_manual(manual_store, "some-doc", {"a.html": "A"})

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(["some-doc"], tmp_path / "manuals", interrupt, tmp_path / "none")
    assert list((tmp_path / "manuals").iterdir()) == []


def test_without_a_network_one_package_is_tried(tmp_path, manual_store):
    (manual_store / "offline").touch()
    found, _ = fetch_manuals(tmp_path, "one-doc", "two-doc", "three-doc")
    assert set(found.missing) == {"one-doc", "two-doc", "three-doc"}
    assert all("resolve" in reason for reason in found.missing.values())
    assert asked_packages(manual_store) == ["one-doc"]


def test_without_apt_the_installed_manual_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("python3", "python3.9", "python3.11", "python3-extra"):
        (tmp_path / "installed" / name / "html").mkdir(parents=True)
    packages = "python3-doc", "sqlite3-doc"
    found, told = fetch_manuals(tmp_path, *packages, installed="installed")
    assert found.found == {"python3-doc": tmp_path / "installed" / "python3.11" / "html"}
    assert "apt-get cannot be run" in found.missing["sqlite3-doc"]
    assert any("python3.11" in line for line in told)


def test_a_name_that_is_a_path_or_an_option_is_refused(tmp_path, manual_store):
    for name in ("../some-doc", "-o", "", "Some Doc", "a/b"):
        with pytest.raises(Mistake, match="not the name of a package"):
            fetch_manuals(tmp_path, name)


def test_a_folder_that_cannot_be_made_is_a_mistake(tmp_path):
    (tmp_path / "manuals").write_text("a file")
    with pytest.raises(Mistake, match="cannot write"):
        fetch_manuals(tmp_path, "some-doc")


def write_manual(folder: Path, files: dict[str, str]) -> Path:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")
    return folder


def page_names(folder: Path, **options: int) -> list[str]:
    return [page.relative_to(folder).as_posix() for page in pages_of(folder, **options)]


def test_pages_have_a_stable_order(tmp_path):
    files = {f"{name}.html": manual_page(name) for name in ("b", "a", "c/a", "B")}
    write_manual(tmp_path, files)
    assert page_names(tmp_path) == ["B.html", "a.html", "b.html", "c/a.html"]


@pytest.mark.parametrize(
    "name",
    [
        "genindex.html",
        "genindex-A.html",
        "py-modindex.html",
        "search.html",
        "html/navtree.html",
        "Concept-Index.html",
        "doc-index-K.html",
        "index-all.html",
        "keyword_index.html",
        "toc.html",
        "sitemap.html",
        "bookindex.html",
        "notation-big-page.html",
        "html/_modules/code.html",
        "api/class-use/Code.html",
        "de/page.html",
        "it_IT/page.html",
        "guide-fr/page.html",
        "page.ja.html",
        "page.txt",
        "html",
    ],
)
def test_generated_pages_translations_and_other_files_are_left_out(tmp_path, name):
    write_manual(tmp_path, {name: manual_page("A page"), "page.html": manual_page("The page")})
    assert page_names(tmp_path) == ["page.html"]


@pytest.mark.parametrize(
    "name",
    ["index.html", "functions.html", "files.html", "create-index.html", "en/page.html", "it.html"],
)
def test_pages_with_common_names_are_kept(tmp_path, name):
    write_manual(tmp_path, {name: manual_page("A page")})
    assert page_names(tmp_path) == [name]


def test_the_lists_of_doxygen_are_left_out(tmp_path):
    by = '<head><meta name="generator" content="Doxygen 1.9">'
    files = {
        name: manual_page(name).replace("<head>", by)
        for name in ("functions.html", "a_8h_source.html", "classa-members.html", "classa.html")
    }
    assert page_names(write_manual(tmp_path, files)) == ["classa.html"]


@pytest.mark.parametrize(
    "content",
    [
        "<frameset><frame src='a.html'></frameset>" + TEXT,
        "<head><meta http-equiv='Refresh' content='0; url=a.html'></head>" + TEXT,
        "<html lang='de'><p>" + TEXT,
        "<p>Little text.</p>",
        "<head><title>" + TEXT + "</title></head><script>" + TEXT + "</script>",
        "".join(f"<li><a href='{n}.html'>Page number {n}</a></li>" for n in range(100)),
        "",
    ],
)
def test_frames_redirections_and_pages_without_text_are_left_out(tmp_path, content):
    write_manual(tmp_path, {"a.html": content})
    assert page_names(tmp_path) == []


def test_a_redirection_for_browsers_without_scripts_does_not_count(tmp_path):
    head = "<head><noscript><meta http-equiv='refresh' content='0; url=b.html'></noscript></head>"
    write_manual(tmp_path, {"a.html": head + manual_page("A page")})
    assert page_names(tmp_path) == ["a.html"]


def test_equal_files_are_one_page(tmp_path):
    write_manual(tmp_path, {"b.html": manual_page("One"), "a.html": manual_page("One")})
    (tmp_path / "c.html").hardlink_to(tmp_path / "b.html")
    write_manual(tmp_path, {"z.html": manual_page("Two")})
    (tmp_path / "0.html").symlink_to("z.html")
    assert page_names(tmp_path) == ["a.html", "z.html"]


def test_of_too_many_pages_the_same_ones_are_taken_wherever_the_manual_is(tmp_path):
    files = {f"{n}.html": manual_page(str(n)) for n in range(20)}
    here, there = write_manual(tmp_path / "a", files), write_manual(tmp_path / "b", files)
    taken = page_names(here, most=5)
    assert len(taken) == 5 and taken == sorted(taken)
    assert page_names(there, most=5) == taken
    assert set(taken) <= set(page_names(here, most=6))
    with pytest.raises(Mistake, match="most"):
        pages_of(here, most=0)


@given(st.binary())
def test_any_content_is_a_page_or_is_not(content):
    assert is_manual_page(content, "a") in (True, False)


def test_a_manual_can_be_generated_for_every_person(tmp_path):
    assert set(OBJECTS) == set(MANUALS)
    texts = set()
    for person in MANUALS:
        pages = pages_of(generated(tmp_path, person, 1))
        assert len(pages) > 200
        queries = queries_from(links_between(pages), pages)
        assert len(queries) > 300
        texts |= {query.text for query in queries}
    assert len(texts) > 3000  # the people search for different things


def test_generated_queries_are_other_words_than_the_titles_of_their_pages(tmp_path):
    pages = pages_of(generated(tmp_path, "office", 1))
    queries = queries_from(links_between(pages), pages)
    titles = [next(iter(query.relevant)).stem.replace("-", " ") for query in queries]
    pairs = list(zip(titles, (query.text for query in queries), strict=True))
    assert not any(set(title.split()) <= set(text.split()) for title, text in pairs)
    assert any(set(title.split()) & set(text.split()) for title, text in pairs)


def test_generated_pages_depend_on_the_seed_alone(tmp_path):
    one = generated(tmp_path / "a", "web", 1)
    same, other = generated(tmp_path / "b", "web", 1), generated(tmp_path / "b", "web", 2)
    names = sorted(path.name for path in one.iterdir())
    assert [(one / name).read_text() == (same / name).read_text() for name in names].count(0) == 0
    assert [(one / name).read_text() == (other / name).read_text() for name in names].count(1) == 0


def test_a_generated_manual_is_found_again(tmp_path):
    first = generated(tmp_path, "web", 1)
    page = pages_of(first)[0]
    page.write_text("changed")
    assert generated(tmp_path, "web", 1) == first
    assert page.read_text() == "changed"


def test_no_manual_is_generated_for_an_unknown_person(tmp_path):
    with pytest.raises(Mistake, match=r"'ofice'.*office"):
        generated(tmp_path, "ofice", 1)
