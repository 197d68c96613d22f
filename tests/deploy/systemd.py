"""What `systemctl` and `systemd-run` do with the units of the service, for a machine without systemd (machine.py): a
script, started under either name. Of a sandbox it knows the user and the folders; `make deploy-check` also traces the
system calls, and `systemd-analyze` verifies the rest.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

UNITS = Path("/etc/systemd/system")
RUN = Path("/run/units")
STATE = "/var/lib"
USER = 61184
"""systemd gives a dynamic user an id from here on."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_SECONDS = 120
Settings = dict[str, list[str]]


def refuse(why: str) -> None:
    sys.exit(f"{Path(sys.argv[0]).name}: {why}")


def full_name(name: str) -> str:
    return name if name.endswith((".service", ".target", ".timer")) else f"{name}.service"


def file_of(name: str) -> Path:
    """The file of a unit, which may be a template."""
    return UNITS / re.sub(r"@[^.]+\.", "@.", name)


def read(name: str) -> Settings:
    """The settings of a unit, those of its drop-ins last, with their specifiers replaced."""
    prefixes = [name[: dash.end()] for dash in re.finditer("-", name)]
    drop_ins = [path for prefix in prefixes for path in sorted((UNITS / f"{prefix}.service.d").glob("*.conf"))]
    instance = name.partition("@")[2].partition(".")[0]
    settings: Settings = {}
    for path in (file_of(name), *drop_ins):
        if not path.is_file():
            refuse(f"Unit {name} does not exist")
        for line in path.read_text("utf-8").splitlines():
            key, equals, value = line.partition("=")
            if equals and not line.startswith("#"):
                settings.setdefault(key, []).append(value.replace("%S", STATE).replace("%i", instance))
    return settings


def assigned(words: Iterable[str]) -> dict[str, str]:
    pairs = (word.partition("=") for word in words)
    return {name: value for name, _, value in pairs}


def environment(settings: Settings) -> dict[str, str]:
    values = {"PATH": PATH}
    for line in settings.get("Environment", []):
        values.update(assigned(shlex.split(line)))
    for path in settings.get("EnvironmentFile", []):
        lines = [line for line in Path(path).read_text("utf-8").splitlines() if line and not line.startswith("#")]
        values.update(assigned(lines))
    return values


def run(settings: Settings, command: list[str], further: dict[str, str], **options: int) -> subprocess.Popen[bytes]:
    """A program as the user of the unit, in its folder."""
    if settings["DynamicUser"] != ["yes"] or not settings["User"]:
        refuse("the unit is run by root")
    for name in settings["StateDirectory"]:
        (folder := Path(STATE, name)).mkdir(mode=int(settings["StateDirectoryMode"][-1], 8), exist_ok=True)
        os.chown(folder, USER, USER)
    variables = [f"{name}={value}" for name, value in {**environment(settings), **further}.items()]
    rights = ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", *rights]
    folder_of_unit, mask = settings["WorkingDirectory"][-1], int(settings["UMask"][-1], 8)
    return subprocess.Popen([*user, "env", "-i", *variables, *command], cwd=folder_of_unit, umask=mask, **options)  # type: ignore[call-overload,no-any-return]


def enable(names: Iterable[str]) -> None:
    for name in names:
        for target in read(name).get("WantedBy", []):
            (wants := UNITS / f"{target}.wants").mkdir(exist_ok=True)
            (wants / name).symlink_to(file_of(name))


def start(names: Iterable[str]) -> None:
    """Starts units after those that they want, each once."""
    jobs: list[str] = []

    def add(name: str) -> None:
        settings = read(name)
        wanted_units = [unit for line in settings.get("Wants", []) for unit in line.split() if file_of(unit).exists()]
        for unit in (*wanted_units, *sorted(path.name for path in (UNITS / f"{name}.wants").glob("*"))):
            add(unit)
        if "ExecStart" in settings and name not in jobs and main_pid(name) is None:
            jobs.append(name)

    for name in names:
        add(name)
    for job in jobs:
        start_one(job, read(job))


def start_one(name: str, settings: Settings) -> None:
    RUN.mkdir(exist_ok=True)
    command = shlex.split(settings["ExecStart"][0])
    with (RUN / f"{name}.log").open("ab") as log, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        output = {"stdin": subprocess.DEVNULL, "stdout": log.fileno(), "stderr": log.fileno()}
        if settings["Type"] == ["oneshot"]:
            if run(settings, command, {}, **output).wait():
                refuse(f"Job for {name} failed: {(RUN / f'{name}.log').read_text()}")
            return
        address = RUN / f"{name}.notify"
        address.unlink(missing_ok=True)
        line.bind(str(address))
        address.chmod(0o666)
        line.settimeout(START_SECONDS)
        process = run(settings, command, {"NOTIFY_SOCKET": str(address)}, **output)
        (RUN / f"{name}.pid").write_text(str(process.pid))
        try:
            while b"READY=1" not in line.recv(4096).splitlines():
                pass
        except TimeoutError:
            refuse(f"Job for {name} failed: {(RUN / f'{name}.log').read_text()}")


def main_pid(name: str) -> int | None:
    """The process of a unit, if it runs."""
    file = RUN / f"{name}.pid"
    pid = int(file.read_text()) if file.exists() else 0
    return pid if pid and Path(f"/proc/{pid}").exists() else None


def reload(patterns: Iterable[str]) -> None:
    running = [path.stem for path in sorted(RUN.glob("*.pid")) if main_pid(path.stem)]
    for name in (unit for unit in running if any(fnmatch.fnmatch(unit, pattern) for pattern in patterns)):
        command = read(name)["ExecReload"][0].replace("$MAINPID", str(main_pid(name)))
        subprocess.run(shlex.split(command), check=True)


def systemd_run(arguments: list[str]) -> int:
    """One command with the properties of a unit."""
    settings: Settings = {}
    options_without_effect = {"--quiet", "--pipe", "--wait", "--collect", "--service-type=exec"}
    while arguments and arguments[0].startswith("--"):
        option, _, value = arguments.pop(0).partition("=")
        if option in ("--property", "--setenv"):
            name, _, rest = value.partition("=") if option == "--property" else ("Environment", "", shlex.quote(value))
            settings.setdefault(name, []).append(rest)
        elif f"{option}={value}".removesuffix("=") not in options_without_effect:
            refuse(f"unrecognized option {option}")
    return run(settings, arguments, {}).wait()


if __name__ == "__main__":
    if Path(sys.argv[0]).name == "systemd-run":
        sys.exit(systemd_run(sys.argv[1:]))
    verbs = {"enable": enable, "start": start, "reload": reload}
    if sys.argv[1] not in verbs:
        refuse(f"Unknown command verb {sys.argv[1]}")
    verbs[sys.argv[1]]([full_name(unit) for unit in sys.argv[2:]])
