"""The cores that a process may use: affinity and cgroup limits, from made-up file trees."""

from pathlib import Path

import pytest

from charonia.backends import cores


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_affinity", lambda: 8)


def _tree(root: Path, cgroup: str, **files: str) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_limits(tmp_path: Path) -> None:
    assert cores.available_cores(tmp_path) == 8


@pytest.mark.parametrize(
    ("limit", "expected"), [("max 100000", 8), ("300000 100000", 3), ("250000 100000", 2), ("50000 100000", 1)]
)
def test_version_2(tmp_path: Path, limit: str, expected: int) -> None:
    assert cores.available_cores(_tree(tmp_path, "0::/a/b\n", a__b__cpu_dot_max=limit)) == expected


def test_the_tightest_limit_on_the_way_up(tmp_path: Path) -> None:
    tree = _tree(tmp_path, "0::/a/b\n", a__b__cpu_dot_max="max 100000", a__cpu_dot_max="400000 100000")
    assert cores.available_cores(tree) == 4


def test_in_a_container_the_limit_stands_at_the_mount_point(tmp_path: Path) -> None:
    tree = _tree(tmp_path, "0::/kubepods/pod1\n", cpu_dot_max="200000 100000")
    assert cores.available_cores(tree) == 2


@pytest.mark.parametrize(("quota", "expected"), [("-1", 8), ("600000", 6)])
def test_version_1(tmp_path: Path, quota: str, expected: int) -> None:
    tree = _tree(tmp_path, "4:cpu,cpuacct:/docker/x\n2:memory:/docker/x\n")
    folder = tree / "sys/fs/cgroup/cpu,cpuacct/docker/x"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text(quota + "\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert cores.available_cores(tree) == expected


def test_affinity_can_be_tighter_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_affinity", lambda: 2)
    assert cores.available_cores(_tree(tmp_path, "0::/\n", cpu_dot_max="400000 100000")) == 2
