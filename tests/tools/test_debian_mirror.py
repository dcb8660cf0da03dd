"""tools/debian-mirror: which of apt's sources it takes, and what it says where there is none."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.once

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "debian-mirror"
VARIABLE = "PASTURE_DEBIAN_MIRROR"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch, load_tool: Callable[[str], ModuleType]) -> ModuleType:
    module = load_tool("debian-mirror")
    monkeypatch.delenv(VARIABLE, raising=False)
    return module


def choose(tool: ModuleType, *lines: str) -> str:
    answer = "\n".join(line.replace(" ", "\t") for line in lines)
    chosen: str = tool.choose(tool.parse_sources(answer))
    return chosen


def test_the_release_is_taken_not_its_updates_nor_what_is_beside_it(tool: ModuleType) -> None:
    mirror = choose(
        tool,
        "bookworm-security main Debian http://mirror.test/debian-security/",
        "nodistro main Other http://others.test/debian",
        "bookworm contrib Debian http://contrib.test/debian/",
        "bookworm main Debian http://mirror.test/debian/",
    )
    assert mirror == "http://mirror.test/debian"


def test_what_others_offer_under_the_name_of_the_release_is_not_taken(tool: ModuleType) -> None:
    mirror = choose(
        tool,
        "bookworm main Other http://others.test/debian/",
        "bookworm main Debian https://proxy.test/repository/first",
    )
    assert mirror == "https://proxy.test/repository/first"


def test_where_the_index_was_never_read_one_called_debian_goes_first(tool: ModuleType) -> None:
    mirror = choose(
        tool,
        "trixie main $(ORIGIN) http://others.test/prod/",
        "trixie main $(ORIGIN) http://[::1]:3142/debian/",
    )
    assert mirror == "http://[::1]:3142/debian"


def test_a_list_of_mirrors_stands_for_its_first_one(tool: ModuleType, tmp_path: Path) -> None:
    listed = tmp_path / "mirrors.list"
    listed.write_text("# in order\n\nhttp://near.test/debian\tpriority:1\nhttp://far.test/debian\n")
    assert choose(tool, f"sid main Debian mirror+file:{listed}/") == "http://near.test/debian"


@pytest.mark.parametrize(
    "line",
    [
        "noble main Ubuntu http://mirror.test/ubuntu",
        "noble main $(ORIGIN) http://mirror.test/ubuntu",
        "bookworm main Debian cdrom:[Debian]/",
        "bookworm main Debian mirror+file:/nowhere/mirrors.list",
        "bookworm main Debian http://[broken/debian",
        "an answer of another kind",
    ],
)
def test_what_is_no_mirror_of_debian_is_not_taken(tool: ModuleType, line: str) -> None:
    assert choose(tool, line) == ""


def test_the_variable_goes_before_apt(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "http://mine.test/debian/")
    monkeypatch.setenv("PATH", "/nowhere")
    assert tool.find_mirror() == "http://mine.test/debian"


@pytest.mark.parametrize("value", ["mirror.test", "http://", "ssh://x/debian", "http://x/ sid"])
def test_a_variable_that_is_no_address_is_named(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(tool.MirrorError, match=VARIABLE):
        tool.find_mirror()


def test_without_apt_the_hint_names_the_variable(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit) as ending:
        tool.main()
    said = capsys.readouterr()
    assert (ending.value.code, said.out) == (1, "")
    assert said.err.startswith("error: ") and f"hint: set {VARIABLE}" in said.err


@pytest.fixture
def apt_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of sources of a real apt that has never read an index."""
    if not shutil.which("apt-get"):
        pytest.skip("no apt")
    parts = tmp_path / "sources.list.d"
    for folder in (parts, tmp_path / "lists" / "partial"):
        folder.mkdir(parents=True)
    configuration = tmp_path / "apt.conf"
    configuration.write_text(
        f'Dir::Etc::sourcelist "{tmp_path}/sources.list";\n'
        f'Dir::Etc::sourceparts "{parts}";\nDir::State::lists "{tmp_path}/lists";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(configuration))
    return parts


def find_with_apt() -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)


def test_a_line_of_apts_is_read(tool: ModuleType, apt_folder: Path) -> None:
    (apt_folder / "here.list").write_text(
        "deb [trusted=yes] http://mirror.test/debian bookworm main contrib # ours\n"
    )
    assert find_with_apt().stdout == "http://mirror.test/debian\n"


def test_a_paragraph_of_apts_is_read_unless_it_is_off(tool: ModuleType, apt_folder: Path) -> None:
    paragraph = "Types: deb deb-src\nURIs: {0}\nSuites: trixie trixie-updates\nComponents: main\n"
    (apt_folder / "off.sources").write_text(
        "Enabled: no\n" + paragraph.format("http://off.test/debian")
    )
    (apt_folder / "on.sources").write_text(paragraph.format("http://on.test/debian"))
    assert find_with_apt().stdout == "http://on.test/debian\n"


def test_a_broken_list_of_apt_is_quoted(tool: ModuleType, apt_folder: Path) -> None:
    (apt_folder / "broken.list").write_text("deb http://mirror.test\n")
    done = find_with_apt()
    assert done.returncode == 1
    assert "Malformed" in done.stderr and "Traceback" not in done.stderr
