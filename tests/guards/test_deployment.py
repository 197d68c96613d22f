"""The files of `deploy/` fit the service: their commands, settings, paths and limits exist and agree. What runs them:
`make deploy-check`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.settings import Settings, from_environment
from tests.support.deployment import (
    ASSIGNMENT,
    DEPLOY,
    FILES,
    ROOT,
    SANDBOX,
    SETTINGS,
    UNITS,
    Unit,
    compose,
    environment_of_image,
    is_in_context,
    own_services,
    processes,
    stages,
    units,
    wrong_command,
)

BACKUP = Unit(UNITS / "tms-backup.service")
PROCESS_UNITS = [unit for unit in units() if unit.path.name not in ("tms-migrate.service", BACKUP.path.name)]
NOT_SETTINGS = {"PATH", "PYTHONDONTWRITEBYTECODE"}
needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")


def only(name: str) -> str:
    """The argument of the only such instruction of the image."""
    (text,) = [instruction.text for instruction in stages()[-1] if instruction.name == name]
    return text


class TestImage:
    def test_it_is_not_run_by_root_and_keeps_its_data_in_a_volume(self) -> None:
        assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", only("USER"))
        assert only("VOLUME") == only("WORKDIR") == environment_of_image()["DATA_DIR"]
        assert environment_of_image().keys() - NOT_SETTINGS <= SETTINGS
        assert str(Settings().port) == only("EXPOSE")

    def test_its_entrypoint_is_the_command_and_its_default_and_check_exist(self) -> None:
        scripts = (ROOT / "pyproject.toml").read_text("utf-8").partition("[project.scripts]")[2]
        last = {instruction.name: instruction for instruction in stages()[-1]}
        (entry,) = last["ENTRYPOINT"].parts
        assert re.search(rf'^{entry} = "', scripts, re.MULTILINE)
        assert wrong_command(last["CMD"].parts) == ""
        check = last["HEALTHCHECK"].text.partition(" CMD ")[2]
        assert check == '["python", "-m", "jobs.healthcheck"]'

    def test_what_it_copies_is_in_the_repository_and_what_the_wheel_needs_is_sent_to_the_build(self) -> None:
        for instruction in stages()[0]:
            if instruction.name == "COPY":
                assert [word for word in instruction.words[:-1] if not (ROOT / word).exists()] == []
        wheel = (ROOT / "pyproject.toml").read_text("utf-8").partition("[tool.hatch.build.targets.wheel]")[2]
        packed = re.findall(r'"([\w./]+)"', wheel.partition("[tool.")[0])
        needed = [*packed, "pyproject.toml", "requirements.lock", "README.md", "LICENSE", "app/settings.py"]
        assert [name for name in needed if not is_in_context(name)] == []
        others = ["var/secret_key", ".git/config", "deploy/secrets/secret_key", "deploy/.env", "tests/conftest.py"]
        assert [
            name for name in (*others, "/".join(("app", "__pycache__", "settings.pyc"))) if is_in_context(name)
        ] == []


class TestCompose:
    def test_it_runs_every_process_of_the_procfile_and_the_migration_before_them(self) -> None:
        commands = {name: tuple(service["command"]) for name, service in own_services().items()}
        assert set(commands.values()) == {*processes(), ("db", "upgrade", "--expand")}
        assert [problem for command in commands.values() if (problem := wrong_command(list(command)))] == []
        waiting = {name: service["depends_on"] for name, service in own_services().items() if name != "migrate"}
        assert {conditions["migrate"]["condition"] for conditions in waiting.values()} == {
            "service_completed_successfully"
        }

    @pytest.mark.parametrize("name", compose()["services"])
    def test_every_container_is_bounded_and_has_no_more_rights_than_it_needs(self, name: str) -> None:
        service = compose()["services"][name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert {"mem_limit", "pids_limit", "restart", "healthcheck", "tmpfs"} <= service.keys()

    def test_its_settings_secrets_volumes_and_files_exist(self) -> None:
        whole = compose()
        for name, service in own_services().items():
            assert service["environment"].keys() <= SETTINGS | FILES, name
            assert set(service["secrets"]) <= whole["secrets"].keys()
            files = {value for key, value in service["environment"].items() if key in FILES}
            assert files == {f"/run/secrets/{secret}" for secret in service["secrets"]}
            assert (DEPLOY / service["build"]["context"]).resolve() == ROOT
            assert (ROOT / service["build"]["dockerfile"]).is_file()
            assert service["volumes"] == [f"data:{environment_of_image()['DATA_DIR']}"]
        assert {"data", "postgres"} == whole["volumes"].keys()

    def test_its_backup_is_run_by_hand_and_has_the_settings_of_the_processes(self) -> None:
        """Beside their data it writes to one folder of the host."""
        backup, process = compose()["services"]["backup"], own_services()["sends"]
        assert {name: backup[name] for name in ("profiles", "restart")} == {"profiles": ["backup"], "restart": "no"}
        same = ("image", "build", "environment", "env_file", "secrets", "tmpfs", "ulimits")
        assert {name: backup[name] for name in same} == {name: process[name] for name in same}
        data, (host, folder) = backup["volumes"][0], backup["volumes"][1].rsplit(":", 1)
        assert ([data], host) == (process["volumes"], "${BACKUPS:-./backups}")
        assert (wrong_command(backup["command"]), backup["command"][:2]) == ("", ["backup", folder])

    def test_its_example_of_an_environment_is_valid(self, tmp_path: Path) -> None:
        values = dict(ASSIGNMENT.findall((DEPLOY / ".env.example").read_text("utf-8")))
        assert values.keys() <= SETTINGS
        from_environment({**values, "DATA_DIR": str(tmp_path)})


class TestUnits:
    def test_they_run_every_process_of_the_procfile(self) -> None:
        commands = [str(unit.value("Service", "ExecStart")).split() for unit in PROCESS_UNITS]
        assert {tuple(words[1:]) for words in commands} == processes()
        assert {words[0] for words in commands} == {"/opt/tms/bin/tms"}
        assert wrong_command(str(Unit(UNITS / "tms-migrate.service").value("Service", "ExecStart")).split()[1:]) == ""

    @pytest.mark.parametrize("unit", PROCESS_UNITS, ids=lambda unit: str(unit.path.name))
    def test_each_process_is_watched_restarted_and_bounded(self, unit: Unit) -> None:
        values = {name: unit.value("Service", name) for name in ("Type", "WatchdogSec", "Restart", "TimeoutStopSec")}
        assert values == {"Type": "notify", "WatchdogSec": "120", "Restart": "always", "TimeoutStopSec": "20"}
        assert unit.value("Service", "RestartPreventExitStatus") == "2"
        assert unit.value("Service", "ExecReload") == "/bin/kill -USR2 $MAINPID"
        assert unit.value("Service", "MemoryMax")
        assert unit.value("Install", "WantedBy") == unit.value("Unit", "PartOf") == "tms.target"
        assert "tms-migrate.service" in str(unit.value("Unit", "After"))

    def test_a_timer_makes_backups_in_a_folder_that_no_other_unit_can_write_to(self) -> None:
        """Every night, or when the machine is on again; the sandbox is that of all units."""
        program, *arguments = str(BACKUP.value("Service", "ExecStart")).split()
        assert (program, wrong_command(arguments)) == ("/opt/tms/bin/tms", "")
        assert arguments[:2] == ["backup", f"%S/{BACKUP.value('Service', 'StateDirectory')}"]
        assert (BACKUP.value("Service", "Type"), BACKUP.values("Install", "WantedBy")) == ("oneshot", [])
        assert [unit.path.name for unit in units() if unit.values("Service", "StateDirectory")] == [BACKUP.path.name]
        timer = Unit(UNITS / "tms-backup.timer")
        names = ("OnCalendar", "RandomizedDelaySec", "Persistent")
        assert [timer.value("Timer", name) for name in names] == ["*-*-* 03:15:00", "30min", "true"]
        assert timer.value("Install", "WantedBy") == "timers.target"

    def test_they_can_write_to_the_data_folder_only_and_their_settings_exist(self) -> None:
        expected = {"ProtectSystem": "strict", "DynamicUser": "yes", "NoNewPrivileges": "yes", "StateDirectory": "tms"}
        assert {name: SANDBOX.value("Service", name) for name in expected} == expected
        (assignments,) = SANDBOX.values("Service", "Environment")
        names = {word.partition("=")[0] for word in assignments.split()}
        assert names - NOT_SETTINGS <= SETTINGS
        assert "DATA_DIR=%S/tms" in assignments.split()

    @needs_systemd
    def test_systemd_takes_them(self, tmp_path: Path) -> None:
        """systemd prints no line about our units. Units of the machine may have faults of their own."""
        verified = verify(tmp_path)
        assert [line for line in verified.stderr.splitlines() if "tms" in line] == []

    @needs_systemd
    def test_systemd_rates_their_exposure_as_ok(self, tmp_path: Path) -> None:
        """The exposure of a unit without a sandbox is up to 10.0. Below 2.0 the grade is OK, the best one."""
        copy(tmp_path)
        for name in ("tms-web.service", "tms-sends@1.service"):
            command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(tmp_path / name)]
            exposure = subprocess.run(command, capture_output=True, text=True, check=False)
            match = re.search(r"exposure level for \S+: ([\d.]+)", exposure.stdout)
            assert match, exposure
            assert float(match[1]) < 2.0, exposure.stdout


def copy(folder: Path) -> None:
    """The units with a program that exists on this machine."""
    shutil.copytree(UNITS, folder, dirs_exist_ok=True)
    for path in folder.glob("*.service"):
        path.write_text(path.read_text("utf-8").replace("/opt/tms/bin/tms", "/bin/true"), "utf-8")
    (folder / "tms-sends@1.service").write_text((folder / "tms-sends@.service").read_text("utf-8"), "utf-8")


def verify(folder: Path) -> subprocess.CompletedProcess[str]:
    copy(folder)
    names = [str(path) for path in sorted(folder.glob("tms*.*")) if path.is_file() and "@." not in path.name]
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *names]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class TestProxies:
    def test_they_take_the_largest_request_and_keep_connections_for_less_long_than_the_service(self) -> None:
        largest = Settings().max_request_bytes
        nginx, caddy, haproxy = ((DEPLOY / name).read_text() for name in ("nginx.conf", "Caddyfile", "haproxy.cfg"))
        assert f"client_max_body_size {largest >> 20}m;" in nginx
        assert f"max_size {largest >> 20}MiB" in caddy
        assert f"req.body_size gt {largest} " in haproxy
        upstream = nginx[: nginx.index("server {\n    # Requests")]
        kept = re.findall(r"(?:keepalive_timeout|\tkeepalive) (\d+)s", upstream + caddy)
        assert len(kept) == 2
        assert max(map(int, kept)) < Settings().keepalive_seconds
        assert "\n    option http-server-close\n" in haproxy


def test_the_command_of_the_units_is_a_valid_script() -> None:
    assert subprocess.run(["sh", "-n", UNITS / "tms"], check=False).returncode == 0


RUN = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do
    case "$1" in --property=LoadCredential=secret_key:*) export CREDENTIALS_DIRECTORY="${1##*:}";; esac
    shift
done
exec "$@"
"""
"""`systemd-run`, as far as a credential needs it."""


@pytest.mark.parametrize("is_configured", [False, True])
def test_the_command_of_the_units_has_their_secret_key(tmp_path: Path, is_configured: bool) -> None:
    """systemd does not apply the drop-in of the units to it: with a key of its own, what it encrypts is lost."""
    sandbox = SANDBOX.path.read_text("utf-8")
    lines = "#LoadCredential=secret_key:/etc/tms/secret_key\n#Environment=SECRET_KEY_FILE=%d/secret_key\n"
    assert lines in sandbox
    (tmp_path / "tms-.service.d").mkdir()
    changed = sandbox.replace(lines, lines.replace("#", "")) if is_configured else sandbox
    (tmp_path / "tms-.service.d" / SANDBOX.path.name).write_text(changed, "utf-8")
    printing = 'printf "%s\\n" "key in $SECRET_KEY_FILE" "$@"'
    for name, text in {"systemd-run": RUN, "printing": f"#!/bin/sh\n{printing}\n"}.items():
        (tmp_path / name).write_text(text, "utf-8")
        (tmp_path / name).chmod(0o755)
    script = (UNITS / "tms").read_text("utf-8").replace("/etc/systemd/system", str(tmp_path))
    command = ["sh", "-c", script.replace("/opt/tms/bin/tms", str(tmp_path / "printing")), "tms", "lists show", "a b"]
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    file = "/etc/tms/secret_key/secret_key" if is_configured else ""
    assert (ended.stdout.splitlines(), ended.stderr) == ([f"key in {file}", "lists show", "a b"], "")
