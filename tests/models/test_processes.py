"""Alive, dead, or another host's."""

import subprocess
import sys

from models import processes


def test_this_process_is_not_dead() -> None:
    assert not processes.is_dead(processes.this())


def test_a_process_that_ended_is_dead() -> None:
    said = subprocess.check_output(
        [sys.executable, "-c", "from models import processes; print(processes.this())"], text=True
    )
    assert processes.is_dead(said.strip())


def test_a_reused_process_id_is_another_process() -> None:
    host, boot, pid, started = processes.this().split("/")
    assert processes.is_dead("/".join([host, boot, pid, str(int(started) - 1)]))


def test_a_process_before_the_reboot_is_dead() -> None:
    host, _, pid, started = processes.this().split("/")
    assert processes.is_dead(f"{host}/another-boot/{pid}/{started}")


def test_another_host_s_process_can_not_be_known() -> None:
    assert not processes.is_dead("elsewhere/boot/1/2")
