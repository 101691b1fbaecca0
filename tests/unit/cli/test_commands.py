"""The two commands, up to the point where a server would start."""

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from charonia import __version__
from charonia.cli.group import group
from charonia.cli.main import serve


@pytest.mark.parametrize("asked", ["--help", "-h", "--he"])
def test_the_help_of_a_flag_command_lists_flags_and_ends_well(capsys, asked):
    assert serve("tritonserver", ["--model-repository=/m", asked]) == 0
    assert "Usage: tritonserver --model-repository=DIR" in capsys.readouterr().out


def test_whoever_reads_the_help_may_stop_in_the_middle():
    end, beginning = os.pipe()
    os.close(end)
    code = "from charonia.cli.main import serve; raise SystemExit(serve('tritonserver', ['--help']))"
    done = subprocess.run([sys.executable, "-c", code], stdout=beginning, stderr=subprocess.PIPE, check=False)
    os.close(beginning)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("command", ["tritonserver", "charonia serve"])
def test_a_wrong_flag_is_told_on_standard_error_with_code_1(capsys, command):
    assert serve(command, ["--model-repository=/m", "--grpc-prot=1"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"{command}: unrecognized option '--grpc-prot'; did you mean --grpc-port?")
    assert f"'{command} --help'" in captured.err


def test_the_version(capsys):
    assert serve("tritonserver", ["--version"]) == 0
    assert capsys.readouterr().out == f"charonia {__version__}\n"
    assert CliRunner().invoke(group, ["version"]).output == f"charonia {__version__}\n"
    assert __version__ in CliRunner().invoke(group, ["--version"]).output


def test_the_group_hands_flags_on_unread():
    result = CliRunner().invoke(group, ["serve", "--foo"])
    assert result.exit_code == 1
    assert "--help" in CliRunner().invoke(group, []).output
