"""Builds and runs the image where there is no container engine: the steps of the Containerfile and the services of the
compose file, with the means of the kernel that an engine uses. Root only.

In place of the base image stands the file system of this machine, on which every stage is a layer of its own (overlay),
so its instructions really run and nothing of the machine is changed. A container gets the layers read-only, a process
id space and a host name of its own, a user without capabilities and new privileges, and may write to its tmpfs and its
volume alone. All containers share one network of their own, without a way out, in which they have each other's names.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deploy.network import Network
from tests.deploy.system_calls import TRACE, refused_calls, trace_calls
from tests.support.deployment import ROOT, Instruction, environment_of_image, is_in_context, stages
from tests.support.servers import PATIENCE, wait_until

STEP_SECONDS = 1200.0
"""The time limit of a step that installs from the package registry."""
ROOT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INTERPRETER = Path(os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]
LAYERS = Path("/dev/shm")
"""A layer must not lie in the file system below it."""
WRITE_OR_EXECUTE = "import ctypes,os,sys; ctypes.CDLL(None).prctl(65,1,0,0,0); os.execvp(sys.argv[1],sys.argv[1:])"
"""Memory is never both writable and executable from here on, as in systemd's units (MemoryDenyWriteExecute)."""
PREPARE = """
set -e
cd {merged}
mount --rbind /dev dev
mount -t proc proc proc
mount -t tmpfs -o mode=1777 tmpfs tmp
[ ! -d .{checkout} ] || mount -t tmpfs tmpfs .{checkout}
"""


class Image:
    """The built image: `layer` lies on the file system of this machine."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tms-image-", dir=LAYERS))
        self.folder.chmod(0o755)
        self.merged = self.folder / "merged"
        self.merged.mkdir()
        self.layer = self.folder
        self._is_built = False

    def build_once(self) -> None:
        """What has not changed is not built again."""
        if not self._is_built:
            self.build()
        self._is_built = True

    def build(self) -> None:
        """Carries out the instructions of every stage in their order."""
        built: dict[str, Path] = {}
        for number, stage in enumerate(stages()):
            self.layer = self.folder / f"stage{number}"
            self.layer.mkdir()
            (self.folder / f"work{number}").mkdir()
            self._make_base(number)
            folder = "/"
            for instruction in stage:
                if instruction.name == "FROM" and " AS " in instruction.text:
                    built[instruction.text.split(" AS ")[1]] = self.layer
                elif instruction.name == "WORKDIR":
                    folder = instruction.text
                    self._inside(number, f"mkdir -p {folder}", "/")
                elif instruction.name == "COPY":
                    self._copy(instruction, folder, built)
                elif instruction.name == "RUN":
                    self._inside(number, instruction.text, folder)
        self._add_what_an_engine_adds()

    def remove(self) -> None:
        """All layers."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make_base(self, number: int) -> None:
        """What the base image has and this machine may lack: a `python` that every user can run."""
        above = [str(path) for path in INTERPRETER.parents]
        name = INTERPRETER.parent / "python"
        self._inside(number, f"chmod o+x {shlex.join(above)}; [ -e {name} ] || ln -s {INTERPRETER.name} {name}", "/")

    def _inside(self, number: int, command: str, folder: str) -> None:
        """A command of a RUN, by root with the machine's network, in the current stage."""
        layers = f"lowerdir=/,upperdir={self.layer},workdir={self.folder}/work{number}"
        script = (
            f"mount -t overlay overlay -o {layers} {self.merged}\n"
            + PREPARE.format(merged=self.merged, checkout=ROOT)
            + f'exec chroot . /bin/sh -c "cd {folder} && $COMMAND"\n'
        )
        pip = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))}
        done = subprocess.run(
            ["unshare", "--mount", "--propagation=private", "bash", "-c", script],
            env={"PATH": f"{INTERPRETER.parent}:{ROOT_PATH}", "HOME": "/root", "COMMAND": command, **pip},
            capture_output=True,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"RUN {command}\n{done.stdout}\n{done.stderr}"

    def _copy(self, instruction: Instruction, folder: str, built: Mapping[str, Path]) -> None:
        """Copies files from an earlier stage, or from the repository as far as it is sent to the build."""
        *sources, target = instruction.words
        stage = instruction.option("from")
        if stage:
            destination = self.layer / target.lstrip("/")
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(built[stage] / sources[0].lstrip("/"), destination, symlinks=True)
            return
        tracked = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for name in tracked.stdout.splitlines():
            is_copied = "." in sources or any(name == source or name.startswith(f"{source}/") for source in sources)
            if is_copied and is_in_context(name) and (ROOT / name).is_file():
                destination = self.layer / folder.lstrip("/") / target / name
                destination.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, destination)

    def _add_what_an_engine_adds(self) -> None:
        """Names of the other containers, and a place for the secrets."""
        (self.layer / "etc").mkdir(exist_ok=True)
        (self.layer / "etc" / "hosts").write_text("127.0.0.1 localhost postgres valkey relay.example.com\n")
        (self.layer / "run" / "secrets").mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class Place:
    """What the containers share: the image, the network, the volume, and the folder of the secrets."""

    image: Image
    network: Network
    volume: Path
    secrets: Path


class Container:
    """A service of the compose file, or a command of the image with the environment of one."""

    def __init__(self, place: Place, name: str, service: Mapping[str, Any], settings: Mapping[str, str]) -> None:
        self._place = place
        self.name = name
        self._service = service
        self._environment = {**environment_of_image(), **settings, **service["environment"]}
        self.log = place.image.folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str] | None = None) -> None:
        """Starts the entrypoint with the command of the service, or with another one."""
        (entry,) = [instruction.parts for instruction in stages()[-1] if instruction.name == "ENTRYPOINT"]
        namespaces = [
            "unshare",
            "--mount",
            "--propagation=private",
            "--uts",
            "--ipc",
            "--pid",
            "--fork",
            "--kill-child",
        ]
        tracer = trace_calls(refused_calls()) if shutil.which("strace") else []
        arguments = [*tracer, *entry, *(command or self._service["command"])]
        script = f"hostname {self.name}\n{self._mounts()}exec chroot . {self._as_user()} {self._arguments(arguments)}"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._place.network.enter, *namespaces, "bash", "-c", script],
                env={"PATH": ROOT_PATH},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _mounts(self) -> str:
        """The layers without one above them cannot be written to, whoever tries."""
        image, user = self._place.image, stages_user()
        os.chown(self._place.volume, *map(int, user.split(":")))
        return (
            f"mount -t overlay overlay -o lowerdir={image.layer}:/ {image.merged}\n"
            + PREPARE.format(merged=image.merged, checkout=ROOT)
            + f"mount --bind {self._place.volume} .{self._environment['DATA_DIR']}\n"
            + f"mount --bind {self._place.secrets} run/secrets\nmount -o remount,bind,ro run/secrets\n"
        )

    def _as_user(self) -> str:
        uid, gid = stages_user().split(":")
        rights = "--clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all"
        return f"setpriv --reuid={uid} --regid={gid} {rights}"

    def _arguments(self, command: Sequence[str]) -> str:
        """The command with the environment of the container, and nothing of ours."""
        variables = [f"{name}={value}" for name, value in self._environment.items()]
        folder = self._environment["DATA_DIR"]
        return shlex.join(["env", "-i", f"--chdir={folder}", *variables, "python", "-c", WRITE_OR_EXECUTE, *command])

    def refused_calls(self) -> list[str]:
        """The system calls of its processes that the units of systemd refuse, if it was traced."""
        return self.run(["cat", TRACE]).stdout.splitlines()

    @property
    def pid(self) -> int:
        """The first process in it, as this machine numbers it."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        wait_until(lambda: bool(children.read_text().split()) or self._process_ended(), f"{self.name} runs")
        assert not self._process_ended(), self.output()
        return int(children.read_text().split()[0])

    def _process_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def is_healthy(self) -> bool:
        """Whether the check of the service succeeds inside of it."""
        kind, *command = self._service["healthcheck"]["test"]
        assert kind == "CMD"
        return self.run(command).returncode == 0

    def run(self, command: Sequence[str], given: str = "") -> subprocess.CompletedProcess[str]:
        """A further command inside of it, like `docker compose exec`."""
        inside = ["nsenter", f"--target={self.pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"]
        script = f"{self._as_user()} {self._arguments(command)}"
        return subprocess.run(
            [*inside, "sh", "-c", script],
            input=given,
            capture_output=True,
            text=True,
            env={"PATH": ROOT_PATH},
            timeout=STEP_SECONDS,
            check=False,
        )

    def wait(self) -> int:
        """The exit status."""
        assert self._process is not None
        return self._process.wait(PATIENCE)

    def stop(self) -> int:
        """Sends the signal of the image to its first process; returns the exit status."""
        (name,) = [instruction.text for instruction in stages()[-1] if instruction.name == "STOPSIGNAL"]
        os.kill(self.pid, signal.Signals[name])
        return self.wait()

    def kill(self) -> None:
        """Kills the container in any state. The kernel ends all processes of its id space."""
        if self._process is not None and not self._process_ended():
            with suppress(AssertionError, ProcessLookupError, IndexError):
                os.kill(self.pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait(PATIENCE)

    def output(self) -> str:
        """What it has logged."""
        return self.log.read_text("utf-8", "replace")


def stages_user() -> str:
    """The user of the image, as UID:GID."""
    (user,) = [instruction.text for instruction in stages()[-1] if instruction.name == "USER"]
    return user
