"""One engine of each kind for the whole session; every test pushes under a term of its own."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.contract import drafter_witness, helper_plugins, quick_start, v2
from tests.contract.answers import PROMPTS, Answer, answers_alone
from tests.contract.engine import MODELS, NGRAM, Engine, Launch, install_plugin, running_engine
from tests.contract.engine_process import PYTHON
from tests.contract.twin import install_twin

SHARED_ENGINES = {"engine", "following", "ngram_engine", "plain"}
SHARING = {
    "test_injected",
    "test_chat",
    "test_equality",
    "test_fast_loop",
    "test_k0",
    "test_load",
    "test_long_steps",
    "test_measure",
    "test_probe",
    "test_push",
    "test_sampling",
    "test_self_test",
    "test_signature",
    "test_state",
    "test_versions",
}
"""Files of these engines. One worker runs them all, so that it alone starts the engines."""
HEADS = {"test_eagle3", "test_mtp", "test_vocabulary"}
"""They need the answers of the plain engine, and none of the shared engines."""
INTERPRETED = {
    "test_adaptive_verification",
    "test_request_limits",
    "test_v2",
    "test_v2_k0",
    "test_v2_long",
}
"""Those of vLLM's V2 runner, whose steps are slow: beside the heads, not behind them. They share `on_v2`, and
the Python with Triton's interpreter that engines are forked from."""
GROUPS = {"shared engines": SHARING, "heads": HEADS, "interpreted": INTERPRETED}
"""Files that one worker runs, in the order in which workers take them."""
LONGEST_FIRST = (
    "test_twin",
    "test_alternating_text",
    "test_acceptance",
    "test_sweep",
    "test_crash",
    "test_adaptive_launch",
    "test_preemption",
    "test_drain",
)
"""Of the other files, so that no worker is left with a long one at the end."""

_ANSWERS = "answers.pickle"
_terms = count(1)


def group_of(stem: str) -> str | None:
    """The group of a file, by its name without an ending; None for a file of its own."""
    return next((name for name, files in GROUPS.items() if stem in files), None)


class FilesByEngine(LoadFileScheduling):
    """Whole files go to a worker, and those that share engines to the same one.

    xdist has groups for that, which its release 3.8 does not see with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return group_of(Path(file).stem) or file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesByEngine | None:
    """Where whole files were asked for."""
    return FilesByEngine(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that share engines first, and of the others the longest."""
    here = Path(__file__).parent
    for item in items:
        stem = item.path.stem
        if item.path.parent == here and _asks_for_shared_engines(item) and group_of(stem) is None:
            raise pytest.UsageError(f"{stem} shares an engine: name it in SHARING of {__file__}")

    def place(item: pytest.Item) -> int:
        name = group_of(item.path.stem) or item.path.stem
        return 0 if item.path.parent != here else (*GROUPS, *LONGEST_FIRST, name).index(name)

    items.sort(key=place)


def _asks_for_shared_engines(item: pytest.Item) -> bool:
    """A file may have an engine of its own under the same name."""
    if not isinstance(item, pytest.Function):
        return False
    return not SHARED_ENGINES.isdisjoint(set(item.fixturenames) - vars(item.module).keys())


def _made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder of the run that the first worker fills, and all workers read."""
    own = factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / f"shared-{name}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = factory.mktemp(name)
            make(partial)
            partial.rename(folder)
    return folder


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the installed plugin, and those that tests bring along."""
    if not PYTHON.exists():
        pytest.fail(f"no vLLM environment at {PYTHON}: run `make test` once, it makes one", pytrace=False)
    return _made_once(
        tmp_path_factory, "plugin", lambda folder: helper_plugins.install(install_plugin(folder))
    )


@pytest.fixture(scope="session")
def twin(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the installed simulated engine. The plugin first checks that there is a vLLM."""
    del plugin
    return _made_once(tmp_path_factory, "twin", install_twin)


@pytest.fixture(scope="session")
def engine(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A running engine with the tiny models and default settings. Every pass of its
    drafter is written down."""
    if not (MODELS / "target").is_dir():
        pytest.fail(f"no tiny models at {MODELS}: run `make test` once, it makes them", pytrace=False)
    folder = tmp_path_factory.mktemp("engine")
    launch = Launch(
        plugins=(quick_start.NAME, drafter_witness.NAME),
        variables={drafter_witness.VARIABLE: str(folder / drafter_witness.FILE)},
    )
    with running_engine(plugin, folder, launch) as engine:
        yield engine


@pytest.fixture(scope="session")
def following(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """As vLLM has it: the drafter follows every step. With a map of its step times."""
    launch = Launch(plugins=(quick_start.NAME,), variables={"OUTRIDER_K0": "Sync", "OUTRIDER_SWEEP": "1"})
    with running_engine(plugin, tmp_path_factory.mktemp("following"), launch) as engine:
        yield engine


@pytest.fixture(scope="session")
def ngram_engine(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A running engine that drafts by looking up the request's own text. vLLM has no asynchronous scheduling
    for that."""
    launch = Launch(speculation=NGRAM, candidates=(0, 2, 4), plugins=(quick_start.NAME,))
    with running_engine(plugin, tmp_path_factory.mktemp("ngram"), launch) as engine:
        yield engine


@pytest.fixture(scope="session")
def on_v2(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A running engine of the V2 runner as on a GPU: EAGLE-3, with asynchronous scheduling. Every pass of its
    drafter is written down."""
    folder = tmp_path_factory.mktemp("on-v2")
    with running_engine(plugin, folder, v2.witnessed(folder)) as engine:
        yield engine


@pytest.fixture(scope="session")
def plain(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    """Answers of an engine that was launched without speculation, each prompt alone."""

    def ask(folder: Path) -> None:
        launch = Launch(speculation=None, plugins=(quick_start.NAME,))
        with running_engine(plugin, folder, launch) as engine:
            alone = answers_alone(engine)
            assert answers_alone(engine, PROMPTS[:1]) == alone[:1], "the plain engine does not repeat itself"
        (folder / _ANSWERS).write_bytes(pickle.dumps(alone))

    kept = _made_once(tmp_path_factory, "plain", ask) / _ANSWERS
    answers: list[Answer] = pickle.loads(kept.read_bytes())
    return answers


@pytest.fixture
def term() -> int:
    """A term above that of every test before."""
    return next(_terms)
