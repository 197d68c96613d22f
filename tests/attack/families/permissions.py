"""Another user of the machine looks for what the service has left open: files, folders, sockets, backups, exports."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tests.attack.party import LIST
from tests.attack.stage import Stage
from tests.attack.tally import Case, case

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def attack(on: Stage) -> Iterator[Case]:
    """Everything in DATA_DIR, and the files that an operator asks for, under the umask of a careless one."""
    yield from private("files of the service", on.service.data)
    made = on.folder / "made"
    made.mkdir()
    account, list_option = ("--account", on.victim.name), ("--list", LIST.format(on.victim.name))
    commands = {
        "backup.tar": ("backup", str(made / "backup.tar")),
        "contacts.csv": ("contacts", "export", str(made / "contacts.csv"), *list_option, *account),
        "sends.csv": ("sends", "export", str(made / "sends.csv"), *account),
        "suppressions.csv": ("suppressions", "export", str(made / "suppressions.csv"), *account),
    }
    previous = os.umask(0o022)
    try:
        for name, command in list(commands.items())[: 1 if on.short else None]:
            done = on.run(*command)
            is_there = done.returncode == 0 and (made / name).exists()
            yield case("files of commands", is_there, f"{command}: {done.stderr}")
    finally:
        os.umask(previous)
    made.chmod(0o700)
    yield from private("files of commands", made)
    yield from listening(on)


def private(attack_name: str, folder: Path) -> Iterator[Case]:
    """Nobody else may read, write or enter anything of a folder. What is inside a folder that nobody may enter is
    private, whatever its own mode; its mode is judged nevertheless. The service goes on: files may be gone by then."""
    for path in (folder, *sorted(folder.rglob("*"))):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        held = path.is_symlink() or not mode & OTHERS
        yield case(attack_name, held, f"{path.relative_to(folder.parent)}: {stat.filemode(mode)}")


def listening(on: Stage) -> Iterator[Case]:
    """All ports of the service are of the loopback address, as its settings say."""
    links = itertools.chain.from_iterable(Path("/proc").glob(f"{pid}/fd/*") for pid in on.service.pids())
    targets = map(_target, links)
    inodes = {target[8:-1] for target in targets if target.startswith("socket:[")}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                held = table == "tcp" and fields[1].startswith("0100007F:")
                yield case("ports", held, f"listens on {fields[1]}")


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""
