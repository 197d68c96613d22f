"""A machine with systemd, as far as the units need it: a root of its own on the layers of the image, which has the
package under /opt/tms, with systemd.py in place of `systemctl` and `systemd-run`. Root only."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

from tests.deploy.engine import INTERPRETER, PREPARE, ROOT_PATH, STEP_SECONDS, Image
from tests.deploy.network import Network
from tests.support.deployment import ROOT
from tests.support.servers import PATIENCE

CHECKOUT = "/srv/checkout"
STAND_INS = "/run/stand-ins"
UNITS = "/run/units"
FIRST_PROCESS = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); print('up', flush=True); signal.pause()"
"""A first process that leaves no process without a parent as a zombie."""


class Machine:
    """`checkout` is the folder in which commands are typed there."""

    def __init__(self, image: Image, network: Network, checkout: Path) -> None:
        image.build_once()
        folder = image.folder / "machine"
        for name in ("upper", "work", "merged"):
            (folder / name).mkdir(parents=True)
        layers = f"lowerdir={image.layer}:/,upperdir={folder}/upper,workdir={folder}/work"
        merged = folder / "merged"
        script = (
            f"mount -t overlay overlay -o {layers} {merged}\n"
            + PREPARE.format(merged=merged, checkout=ROOT)
            + f"mkdir -p .{CHECKOUT}\nmount --bind {checkout} .{CHECKOUT}\n"
            + f"mount -t tmpfs tmpfs run\nmkdir -p .{STAND_INS}\n"
            + "".join(f"cp {checkout}/systemd.py .{STAND_INS}/{name}\n" for name in ("systemctl", "systemd-run"))
            + f'exec chroot . {INTERPRETER} -c "{FIRST_PROCESS}"\n'
        )
        source = Path(__file__).with_name("systemd.py").read_text("utf-8")
        (checkout / "systemd.py").write_text(f"#!{INTERPRETER} -IS\n{source}", "utf-8")
        (checkout / "systemd.py").chmod(0o755)
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
        self._holder = subprocess.Popen(
            [*network.enter, *namespaces, "bash", "-ec", script],
            env={"PATH": ROOT_PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"up\n"

    def type(self, commands: str) -> str:
        """Runs commands as root in the checkout, all of which must succeed; returns their output."""
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text().split()
        inside = ["nsenter", f"--target={children[0]}", "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"]
        done = subprocess.run(
            [*inside, "bash", "-euo", "pipefail", "-c", f"cd {CHECKOUT}\n{commands}"],
            env={"PATH": f"{STAND_INS}:{ROOT_PATH}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}"
        return done.stdout

    def processes(self) -> dict[str, int]:
        """Unit -> the id of its process."""
        output = self.type(f"cd {UNITS}; for file in *.pid; do echo $file $(cat $file); kill -0 $(cat $file); done")
        return {name: int(pid) for name, pid in re.findall(r"^(\S+)\.pid (\d+)$", output, re.MULTILINE)}

    def end(self) -> None:
        """Ends the machine with all of its processes."""
        self._holder.send_signal(signal.SIGKILL)
        self._holder.wait(PATIENCE)
        if self._holder.stdout is not None:
            self._holder.stdout.close()
