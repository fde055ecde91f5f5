"""The world a run of ranks lives in, as Linux shows it: its processes, its sockets, its disk.

As root (or where users may have namespaces of their own) the campaign moves into a network and a
table of mounts of its own: then every port that listens is a leftover, the link can be made slow,
and a disk can be small. Elsewhere it does without, and says so.
"""

import ctypes
import errno
import os
import shutil
import socket
import struct
import subprocess
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_REC_PRIVATE = 0x4000 | 0x40000
PIDFD_GETFD = 438
ESTABLISHED, LISTEN = "01", "0A"


def check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def isolate() -> bool:
    """Moves this process into namespaces of its own, if it may."""
    uid, gid = os.getuid(), os.getgid()
    try:
        check(LIBC.unshare(CLONE_NEWNET | CLONE_NEWNS | (CLONE_NEWUSER if uid else 0)))
        if uid:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
            Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
        check(LIBC.mount(b"none", b"/", None, MS_REC_PRIVATE, None))
        bring_loopback_up()
    except OSError:
        return False
    return True


def bring_loopback_up() -> None:
    import fcntl
    siocsifflags, iff_up = 0x8914, 0x1
    with socket.socket() as s:
        fcntl.ioctl(s, siocsifflags, struct.pack("16sH14x", b"lo", iff_up))


# ---- processes

def processes(mark: str) -> list[int]:
    """All that were started with `mark` in their environment, and what they have forked."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:  # gone meanwhile, or not ours
            pass
    return sorted(found)


def stat(pid: int) -> list[str]:
    """/proc/PID/stat from the state on; empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def children(pid: int, mark: str) -> list[int]:
    """In the order in which they were started."""
    found = [(int(s[19]), p) for p in processes(mark) if (s := stat(p)) and int(s[1]) == pid]
    return [p for _, p in sorted(found)]


# ---- sockets

def tcp_table() -> dict[int, tuple[str, str, str]]:
    """inode -> (state, local address, remote address) of this network."""
    rows = [line.split() for name in ("tcp", "tcp6") if Path(f"/proc/net/{name}").exists()
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {int(row[9]): (row[3], row[1], row[2]) for row in rows}


def listening_ports() -> set[int]:
    return {int(local.split(":")[1], 16) for state, local, _ in tcp_table().values()
            if state == LISTEN}


def connections(pid: int) -> list[tuple[int, str, str]]:
    """The established connections of a process: (descriptor, local address, remote address)."""
    table, found = tcp_table(), []
    try:
        links = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # gone meanwhile
        return []
    for link in links:
        try:
            target = os.readlink(link)
        except OSError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            state, local, remote = table.get(int(target[8:-1]), ("", "", ""))
            if state == ESTABLISHED:
                found.append((int(link.name), local, remote))
    return found


def shut_down(pid: int, descriptor: int) -> None:
    """Closes a connection under the process that has it, which notices as if the link were cut."""
    pidfd = os.pidfd_open(pid)
    try:
        copy = check(LIBC.syscall(PIDFD_GETFD, pidfd, descriptor, 0))
        with socket.socket(fileno=copy) as s:
            s.shutdown(socket.SHUT_RDWR)
    except OSError as error:
        if error.errno not in (errno.EBADF, errno.ENOTCONN):  # closed already
            raise
    finally:
        os.close(pidfd)


class SlowLoopback:
    """The loopback interface with a bandwidth, and a queue that overflows."""

    def __init__(self, megabits: int):
        self.megabits = megabits

    def __enter__(self):
        subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate",
                        f"{self.megabits}mbit", "burst", "256kb", "latency", "300ms"], check=True)

    def __exit__(self, *_):
        subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=True)


def can_slow_loopback() -> bool:
    if shutil.which("tc") is None:
        return False
    try:
        with SlowLoopback(1000):
            return True
    except subprocess.CalledProcessError:
        return False


# ---- disks

class SmallDisk:
    """A disk of `size` bytes at `path`, in memory."""

    def __init__(self, path: Path, size: int):
        self.path, self.size = path, size

    def __enter__(self):
        self.path.mkdir(exist_ok=True)
        check(LIBC.mount(b"faults", os.fsencode(self.path), b"tmpfs", 0,
                         f"size={self.size}".encode()))
        return self

    def __exit__(self, *_):
        check(LIBC.umount2(os.fsencode(self.path), 2))  # lazily: a hung rank may still hold it

    def fill(self) -> None:
        with open(self.path / "filler", "ab", buffering=0) as filler:
            try:
                while filler.write(bytes(1 << 16)):
                    pass
            except OSError:
                pass
