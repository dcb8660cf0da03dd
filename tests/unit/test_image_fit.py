"""`pasture image fit`: what is recorded, what is read of it, which images are found."""

import os
import random
import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

from pasture.errors import UsageError
from pasture_zygote import fit_command, fit_log, recorded
from pasture_zygote.fit import Images, Problem, fit
from pasture_zygote.fit_costs import Load, Loads
from pasture_zygote.fit_log import Kind
from pasture_zygote.fit_plan import IMAGE_BYTES, MODULE_SHARE, Fit, Program, measured, plan
from pasture_zygote.tree import Plan, Tree

pytestmark = pytest.mark.once


def small(seed: int) -> Problem:
    draw = random.Random(seed)
    atoms, kinds = draw.randint(2, 7), draw.randint(2, 4)
    return Problem(
        tuple(draw.randrange(1, 1 << atoms) for _ in range(kinds)),
        tuple(draw.randint(1, 100) for _ in range(kinds)),
        tuple(draw.random() for _ in range(atoms)),
        tuple(draw.randint(1, 50) for _ in range(atoms)),
        draw.choice((0, 1, 5)),
        draw.choice((0.0, 0.15)),
        draw.randint(0, 150),
        has_supersets=seed % 4 == 0,
    )


def best(problem: Problem) -> float:
    """By all sets of images that the budget has headroom for."""
    sets = problem.candidates
    affordable = (
        problem.total(images)
        for count in range(len(sets) + 1)
        for images in combinations(sets, count)
        if problem.bytes(frozenset(images)) <= problem.budget_bytes
    )
    return max(affordable)


def test_what_is_found_is_as_good_as_the_best_of_all_or_nearly() -> None:
    shares = []
    for seed in range(200):
        problem = small(seed)
        found, possible = fit(problem), best(problem)
        assert problem.bytes(found) <= problem.budget_bytes
        shares.append(problem.total(found) / possible if possible else 1.0)
    assert min(shares) > 0.9
    assert sum(share > 1 - 1e-9 for share in shares) >= 195


def test_a_program_gets_no_image_with_modules_that_it_does_not_import() -> None:
    for seed in range(1, 50, 4):
        problem = small(seed)
        for wanted in problem.wanted:
            assert not problem.best(wanted, fit(problem)) & ~wanted


def test_with_supersets_one_image_serves_programs_that_import_different_things() -> None:
    problem = Problem((1, 2), (1, 1), (1.0, 1.0), (10, 10), 15, 0.0, 35, has_supersets=True)
    assert fit(problem) == {3}


def test_what_programs_share_is_the_base_where_that_saves_memory() -> None:
    problem = Problem((0b011, 0b101), (1, 1), (1.0,) * 3, (100, 10, 10), 5, 0.1, 10**6)
    images: Images = fit(problem)
    assert images == {0b001, 0b011, 0b101}
    assert problem.bytes(images) == 120 + 15 + 2 * 10


@pytest.mark.parametrize("budget", [0, 1])
def test_no_budget_means_no_image(budget: int) -> None:
    assert fit(Problem((1,), (1,), (1.0,), (10,), 5, 0.0, budget)) == frozenset()


# -- names


def loads(*names: str, within: int = -1, size: int = 10_000_000) -> tuple[Load, ...]:
    return tuple(Load(name, within, 0.1, size) for name in names)


NUMPY = (*loads("numpy"), *loads("numpy.core", within=0))
PANDAS = Program(
    Kind("pandas", 5, ("pandas",)),
    (*loads("pandas"), Load("numpy", 0, 0.1, 10), Load("numpy.core", 1, 0.1, 10), *loads("six")),
)
PLAIN = Program(Kind("numpy", 5, ("numpy",)), NUMPY)


def fitted(budget: int = 10**9) -> Fit:
    return plan([PANDAS, PLAIN], budget, missing={})


def test_an_image_preloads_what_its_base_has_not_by_the_outermost_names() -> None:
    numpy, pandas = fitted().images
    assert (numpy.base, numpy.preload) == ("", ("numpy",))
    assert (pandas.base, pandas.preload) == (numpy.name, ("pandas", "six"))
    assert [kind.text for kind in pandas.serves] == ["pandas"]
    assert fitted().left_seconds == 0


def test_names_of_images_depend_on_what_they_hold_and_what_they_are_for() -> None:
    first = [image.name for image in fitted().images]
    assert first == [image.name for image in fitted().images]
    other = plan([PANDAS, PLAIN], 10**9, missing={}, seed="another environment")
    assert not {image.name for image in other.images} & set(first)


def test_the_smallest_figure_of_a_module_counts() -> None:
    """`numpy` took 10 bytes in one of two programs."""
    assert fitted().images[0].bytes == 2 * int(10 * MODULE_SHARE) + IMAGE_BYTES


def test_programs_with_the_same_modules_are_measured_once() -> None:
    asked: list[Sequence[str]] = []

    def measure(names: Sequence[str]) -> Loads:
        asked.append(names)
        return Loads(NUMPY, {"gone": "it is not there any more"})

    programs, missing = measured([Kind("a", 1, ("numpy",)), Kind("b", 1, ("numpy",))], measure)
    assert asked == [("numpy",)]
    assert [program.loads for program in programs] == [NUMPY, NUMPY]
    assert missing == {"gone": "it is not there any more"}


# -- the log


def line(
    names: str = "json numpy", text: str = "json,helper", by: str = "python", **other: str
) -> bytes:
    fields = {"kind": recorded.VERSION, "version": "3.14.1", "packages": "1", "options": ""} | other
    return "\t".join((*fields.values(), text, by, names)).encode() + b"\n"


def log_of(folder: Path, *lines: bytes) -> Path:
    path = folder / "log"
    path.write_bytes(b"".join(lines))
    path.chmod(0o600)
    return path


def test_kinds_are_counted_and_keep_what_all_their_programs_import(tmp_path: Path) -> None:
    path = log_of(tmp_path, line("a b c"), line("c a"), line("a c"), line("z", "z", packages="2"))
    found = fit_log.read([path], "3.14", "")
    assert found.kinds == (Kind("json,helper", 3, ("a", "c")), Kind("z", 1, ("z",)))
    assert found.packages == 2


def test_programs_out_of_an_image_count_but_do_not_say_what_they_import(tmp_path: Path) -> None:
    path = log_of(tmp_path, line("json", by="image"), line("json numpy"))
    assert fit_log.read([path], "3.14", "").kinds == (Kind("json,helper", 2, ("json", "numpy")),)


def test_programs_of_other_interpreters_and_options_are_left_out(tmp_path: Path) -> None:
    path = log_of(tmp_path, line(version="3.1.4"), line(options="-u"), line())
    found = fit_log.read([path], "3.14", "")
    assert (found.others, [kind.count for kind in found.kinds]) == (2, [1])
    assert fit_log.read([path], "3.14", "-u").others == 2


@pytest.mark.parametrize(
    "bad",
    [
        b"\n",
        b"\xff\xfe\n",
        b"{}\n",
        line(kind="imports 2"),
        line(by="hand"),
        line("../x"),
        line("a b; c"),
        line("__main__"),
        line("a..b"),
        line(" ".join(["a"] * (fit_log.MAX_MODULES + 1))),
        line(text="../x"),
        line()[:-1],
        line("a" * (recorded.MAX_LINE_BYTES + 1)),
    ],
)
def test_lines_that_make_no_sense_are_counted_and_left_out(tmp_path: Path, bad: bytes) -> None:
    found = fit_log.read([log_of(tmp_path, line(), bad)], "3.14", "")
    assert [kind.count for kind in found.kinds] == [1]
    assert found.malformed >= 1


def test_the_most_frequent_kinds_are_kept(tmp_path: Path) -> None:
    lines = [line("json", f"kind{n}") * (1 + n) for n in range(fit_log.MAX_KINDS + 2)]
    found = fit_log.read([log_of(tmp_path, *lines)], "3.14", "")
    assert len(found.kinds) == fit_log.MAX_KINDS
    assert found.rare == 1 + 2


def test_a_log_that_others_may_write_to_a_link_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    path = log_of(tmp_path, line())
    huge = tmp_path / "huge"
    huge.touch()
    os.truncate(huge, fit_log.MAX_LOG_BYTES + 1)
    for bad in (huge, tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError):
            fit_log.read([bad], "3.14", "")
    path.chmod(0o602)
    with pytest.raises(UsageError, match="every user may write"):
        fit_log.read([path], "3.14", "")


# -- recording


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_nothing_is_written_to_a_file_that_others_may_write_to(tmp_path: Path, mode: int) -> None:
    path = log_of(tmp_path)
    path.chmod(mode)
    recorded.append(str(path), b"line\n")
    assert path.read_bytes() == b""


def test_nothing_is_written_through_a_link_to_a_fifo_or_beyond_the_limit(tmp_path: Path) -> None:
    path = log_of(tmp_path)
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo"):
        with pytest.raises(OSError, match=name):
            recorded.append(str(tmp_path / name), b"line\n")
    os.link(path, tmp_path / "again")
    recorded.append(str(path), b"line\n")
    assert path.read_bytes() == b""
    (tmp_path / "again").unlink()
    recorded.append(str(path), b"line\n")
    assert path.read_bytes() == b"line\n"
    os.truncate(path, recorded.MAX_FILE_BYTES)
    recorded.append(str(path), b"line\n")
    assert path.stat().st_size == recorded.MAX_FILE_BYTES


def test_a_new_file_is_for_its_user_alone(tmp_path: Path) -> None:
    recorded.append(str(tmp_path / "log"), b"line\n")
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_the_program_of_another_process_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(recorded.REQUEST, "1::json")
    monkeypatch.setenv(recorded.FILE, "/nowhere/log")
    finders = list(sys.meta_path)
    recorded.start()
    assert sys.meta_path == finders
    assert recorded.REQUEST not in os.environ


# -- routes


def ready(tree: Tree, name: str, base: str, modules: tuple[str, ...]) -> None:
    zygote = tree.add(Plan(name, base, modules, "/python", (), {}))
    zygote.state = "ready"
    zygote.built = type(zygote.built)(modules=modules)


def test_a_route_comes_before_the_image_that_has_most() -> None:
    tree = Tree()
    ready(tree, "small", "", ("json",))
    ready(tree, "large", "", ("json", "numpy"))
    tree.route("/python", (), {"json,numpy": "small"})
    for imports, name in ((("numpy", "json"), "small"), (("numpy",), "large")):
        chosen = tree.choose("", "/python", (), imports)
        assert not isinstance(chosen, str)
        assert chosen.plan.name == name


def test_a_route_to_an_image_that_is_gone_or_not_ready_is_no_route() -> None:
    tree = Tree()
    ready(tree, "large", "", ("json", "numpy"))
    ready(tree, "small", "", ("json",))
    tree.route("/python", (), {"numpy": "gone", "json": "small"})
    tree.zygotes["small"].state = "failed"
    for imports in ("numpy", "json"):
        chosen = tree.choose("", "/python", (), (imports,))
        assert not isinstance(chosen, str)
        assert chosen.plan.name == "large"


# -- orders


class Server:
    """Takes orders as the server of zygotes does, and can fail at one of them."""

    def __init__(self) -> None:
        self.zygotes: dict[str, str] = {}
        self.routes: dict[str, str] = {}
        self.said: list[str] = []
        self.ends_after = 10**6

    def ask(self, order: dict[str, object], **_: object) -> dict[str, object]:
        self.said.append(str(order["do"]))
        if len(self.said) > self.ends_after:
            raise KeyboardInterrupt
        if order["do"] == "start":
            assert order["base"] in ("", *self.zygotes)
            self.zygotes[str(order["name"])] = str(order["base"])
        if order["do"] == "route":
            self.routes = dict(order["routes"])  # type: ignore[call-overload]
        if order["do"] == "stop":
            del self.zygotes[str(order["name"])]
        rows = [
            {"name": name, "base": base, "state": "ready", "python": "/python", "options": []}
            for name, base in self.zygotes.items()
        ]
        return {"zygotes": rows, "routes": self.routes}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    from pasture_zygote import client

    found = Server()
    monkeypatch.setattr(client, "ask", found.ask)
    monkeypatch.setattr(client, "start_server", lambda: None)
    return found


def apply(found: Fit) -> None:
    fit_command.apply(found, ["numpy", "pandas", "rare"], "/python", (), {})


def test_programs_go_to_the_new_images_and_the_old_ones_stop(server: Server) -> None:
    server.zygotes = {"fit-old": "", "mine": ""}
    apply(fitted())
    numpy, pandas = (image.name for image in fitted().images)
    assert server.zygotes == {"mine": "", numpy: "", pandas: numpy}
    assert server.routes == {"numpy": numpy, "pandas": pandas, "rare": ""}
    before = len(server.said)
    apply(fitted())
    assert "start" not in server.said[before:]


def test_at_each_moment_of_an_interrupted_apply_routes_lead_to_images_that_are_there(
    server: Server,
) -> None:
    for orders in range(8):
        server.zygotes, server.routes = {"fit-old": ""}, {"numpy": "fit-old"}
        server.said, server.ends_after = [], orders
        try:
            apply(fitted())
        except KeyboardInterrupt:
            pass
        assert set(server.routes.values()) <= {"", *server.zygotes}
    server.said, server.ends_after = [], 10**6
    apply(fitted())
    assert len(server.zygotes) == 2
