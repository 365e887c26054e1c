"""What the documentation shows works as written, and the site that is built of it stands by
itself. (doc_pages.py says how a page is run.)"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import fields
from functools import partial
from html import unescape
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import typer
from typer.testing import CliRunner

import doc_pages
import foltr
import quick_foltr
from doc_pages import DOCS, PAGES, ROOT, blocks
from foltr.cli.app import app
from foltr.core import kinds
from foltr.core import types as core
from foltr.core.spec import FAMILIES
from foltr.core.world import protocols

# other languages would not be tested: give such a block a reason
SHOWN = {"python", "sh", "text", "toml"}


def in_folder(folder, *command, programs=""):
    """A process that finds the commands of this environment, on plain output of a known width."""
    paths = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {
        **os.environ,
        "PATH": paths,
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "NO_MKDOCS_2_WARNING": "1",
        "PYTEST_ADDOPTS": "",  # options that a user gives to pytest are not for these
        "PYTHONUNBUFFERED": "1",  # output and messages in their order, as on a terminal
    }
    words = [str(word) for word in command]
    return subprocess.run(
        words, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def runs(page):
    return any(
        block.language in ("python", "sh", "toml") and not block.why_not for block in blocks(page)
    )


@pytest.mark.parametrize("page", [page for page in PAGES if runs(page)])
def test_a_page_works_as_written(page, tmp_path_factory):
    """In a folder and a process of its own."""
    programs = tmp_path_factory.mktemp("programs")
    quick_foltr.write_program(programs)
    folder = tmp_path_factory.mktemp("page")
    done = in_folder(
        folder, *quick_foltr.python_file(), doc_pages.__file__, page, programs=programs
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_says_why_not(page):
    for block in blocks(page):
        if page != "design.md":  # its blocks are pictures
            assert block.language in SHOWN or block.why_not, f"{block}: what language is it?"
        if block.language == "toml":
            tomllib.loads(block.code)
        if block.language == "python" and block.why_not:
            compile(block.code, str(block), "exec")


def taught():
    """The components of the pages: name -> the block that is its file."""
    for page in PAGES:
        for block in blocks(page):
            if block.title and block.title.endswith(".py") and not block.why_not:
                names = re.findall(
                    r"^@\w+\n@dataclass\(frozen=True\)\nclass (\w+)", block.code, re.M
                )
                yield from ((name, block) for name in names)


def test_components_of_the_pages_keep_the_contracts(tmp_path):
    """The same tests that every component of foltr passes find them, once their files are used."""
    files = {name: tmp_path / name / block.title for name, block in taught()}
    for name, block in taught():
        files[name].parent.mkdir()
        files[name].write_text(block.code, encoding="utf-8")
    del files["Brief"]  # a click model that is no table has no table to look at
    del files["Column"]  # wrong on purpose: the page shows the message
    code = (
        f"import foltr, pytest; [foltr.use(file) for file in {list(map(str, files.values()))!r}]; "
        "raise SystemExit(pytest.main(['tests/contracts', '-v', '-p', 'no:cacheprovider', '-k',"
        f" {' or '.join(files)!r}]))"
    )
    done = in_folder(ROOT, sys.executable, "-c", code)
    assert done.returncode == 0, done.stdout
    kept = {name: len(re.findall(rf"\b{name}\] PASSED", done.stdout)) for name in files}
    assert len(kept) >= 6 and min(kept.values()) >= 3, kept


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as strictly as mkdocs can: a link or an anchor that leads nowhere fails."""
    folder = tmp_path_factory.mktemp("site")
    done = in_folder(
        ROOT, sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder
    )
    assert done.returncode == 0, done.stdout
    return folder


class Fetched(HTMLParser):
    """What a browser fetches to show a page. Links that a reader may follow are not of it."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        told = dict(attributes)
        if tag == "link" and told.get("rel") in ("canonical", "prev", "next"):
            return
        wanted = [
            told.get("src"),
            told.get("srcset"),
            told.get("poster"),
            told.get("data") if tag == "object" else None,
        ]
        wanted += [told.get("href")] if tag in ("link", "image", "use") else []
        self.found += [value for value in wanted if value]


@pytest.mark.slow
def test_the_site_asks_no_other_host_for_anything(site):
    elsewhere = re.compile(r"^(https?:)?//")
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        parser = Fetched()
        parser.feed(text)
        assert not [url for url in parser.found if elsewhere.match(url)], page
        # the one thing that the theme's script would load from elsewhere
        assert "mermaid" not in text
    for style in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        urls = re.findall(
            r"""(?:url\(|@import\s+|\bhref=)["']?((?:https?:)?//[^"')\s]+)""",
            style.read_text(encoding="utf-8"),
        )
        assert not urls, style
    for script in site.rglob("*.js"):
        text = script.read_text(encoding="utf-8")
        loaded = re.findall(
            r"""(?:import|fetch|importScripts|\.src)\s*[(=]\s*["'](https?://[^"']+)""", text
        )
        assert not loaded, script


@pytest.mark.slow
def test_the_site_in_a_browser(site):
    """Every page, in light and dark: nothing fetched from elsewhere, nothing broken, and the
    search finds."""
    import playwright.sync_api as browsers

    chromium = shutil.which("chromium") or pytest.skip("no browser")
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        home, asked, wrong = f"http://127.0.0.1:{server.server_port}/", [], []
        with browsers.sync_playwright() as play:
            options = [
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
            ]
            browser = play.chromium.launch(executable_path=chromium, args=options)
            pages = sorted(file.relative_to(site).as_posix() for file in site.rglob("*.html"))
            for scheme, looked_at in (("light", pages), ("dark", ["index.html"])):
                page = browser.new_page(color_scheme=scheme)
                page.on("request", lambda request: asked.append(request.url))
                page.on("pageerror", lambda error: wrong.append(str(error)))
                page.on(
                    "response",
                    lambda answer: wrong.append(answer.url) if answer.status >= 400 else None,
                )
                for path in looked_at:
                    page.goto(home + path)
                shown = page.evaluate("document.body.getAttribute('data-md-color-scheme')")
                assert shown == {"light": "default", "dark": "slate"}[scheme]
            page.locator("input.md-search__input").press_sequentially("bonferroni")
            page.wait_for_selector(".md-search-result__item", state="attached")
            browser.close()
        server.shutdown()
    assert not wrong
    assert {url.split("/")[2] for url in asked if not url.startswith("data:")} == {
        home.split("/")[2]
    }


@pytest.mark.slow
def test_the_reference_holds_every_command_option_and_component(site):
    text = unescape(re.sub(r"<[^>]+>", "", (site / "commands.html").read_text(encoding="utf-8")))
    assert {"run", "demo", "data list"} <= set(every_command())
    for word in every_command():
        shown = CliRunner().invoke(app, [*word.split(), "--help"]).output
        assert "Usage:" in shown
        for option in set(re.findall(r"--[a-z][a-z-]+", shown)) - {"--help"}:
            assert option in text, f"foltr {word} {option}"
    parts = (site / "components.html").read_text(encoding="utf-8")
    for family in FAMILIES:
        for name, cls in family.members().items():
            own = cls.__module__.startswith("foltr.")  # other tests may have loaded more
            assert not own or f'<h3 id="{name.lower()}">' in parts


@pytest.mark.slow
def test_the_python_interface_holds_every_public_name_protocol_and_kind(site):
    page = (site / "api.html").read_text(encoding="utf-8")
    titles = set(re.findall(r"<h3 id=[^>]*>([\w.]+)", page))
    assert {f"foltr.{name}" for name in foltr._HOMES} <= titles
    for module in (core, kinds, protocols):
        own = {name for name, each in vars(module).items() if is_own_class(each, module)}
        assert own and own <= titles, own - titles
    text = unescape(re.sub(r"<[^>]+>", "", page))
    for field in fields(foltr.Experiment):
        assert re.search(rf"^{field.name}: .+ = .+\n.+\.$", text, re.M), field.name
    for family in FAMILIES:  # what must be written, with its arguments
        for name in vars(family.protocol):
            if not name.startswith("_"):
                assert re.search(rf"^{name}[:(]", text, re.M), f"{family.family} {name}"
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.S)  # a bar in a type ends no cell
    assert {len(re.findall(r"<t[dh]>", row)) for row in rows} == {2, 5}
    assert "<!--" not in page.partition("<article")[2].partition("</article>")[0]


def is_own_class(each, module):
    return (
        isinstance(each, type)
        and each.__module__ == module.__name__
        and not each.__name__.startswith("_")
    )


def test_contributing_names_every_family():
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    row = r"^\| [\w ]+ \| `(\w+)` \| \[\w+\]\(docs/howto/(\w+\.md)\) \|$"
    rows = dict(re.findall(row, told, re.M))
    assert set(rows) == {family.folder for family in FAMILIES}
    pages = {page.name for page in (DOCS / "howto").glob("*.md")}
    assert set(rows.values()) == pages - {"chapter.md"} and "docs/howto/chapter.md" in told
    for path in re.findall(r"\b((?:src|docs|tests|benchmarks)/[\w./]*\w)", told):
        assert (ROOT / path).exists(), path


def every_command():
    """Every command by its words, such as "data list", as the program has them."""
    group = typer.main.get_command(app)
    for word, command in group.commands.items():
        inner = getattr(command, "commands", None)
        yield from [word] if inner is None else [f"{word} {name}" for name in inner]


def test_every_page_is_reached_from_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    assert sorted(re.findall(r": (\S+\.md)$", menu, re.M)) == PAGES
