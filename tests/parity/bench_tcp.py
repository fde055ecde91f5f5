"""`make bench-tcp`: the collectives of nanofsdp beside raw TCP between two processes, in turns.

Raw TCP is what they can reach at most on this host: both processes send as many bytes as a rank of
the collective does, each to the other at the same time, over one connection of the loopback
interface. Writes a Markdown table. Needs Python and nothing else.
"""

import argparse
import multiprocessing
import pathlib
import re
import select
import socket
import statistics
import subprocess
import time


def exchange(peer, out, into):
    """Sends all of `out` while it receives all of `into`."""
    sent = received = 0
    while sent < len(out) or received < len(into):
        readable, writable, _ = select.select([peer] * (received < len(into)), [peer] * (sent < len(out)), [])
        if readable:
            got = peer.recv_into(into[received:])
            if got == 0:
                raise ConnectionError("the other process went away")
            received += got
        if writable:
            sent += peer.send(out[sent:])


def timed(peer, size, calls):
    """Seconds of one exchange, the mean of `calls`."""
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setblocking(False)
    out, into = memoryview(bytearray(size)), memoryview(bytearray(size))
    for _ in range(calls // 10):
        exchange(peer, out, into)
    start = time.perf_counter()
    for _ in range(calls):
        exchange(peer, out, into)
    return (time.perf_counter() - start) / calls


def connect(address, size, calls):
    with socket.create_connection(address) as peer:
        timed(peer, size, calls)


def raw_tcp(size):
    calls = 20 if size > 1 << 19 else 200  # as `nanofsdp bench`
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = multiprocessing.Process(target=connect, args=(server.getsockname(), size, calls))
        other.start()
        with server.accept()[0] as peer:
            seconds = timed(peer, size, calls)
        other.join()
    return seconds


def collectives(binary, ranks):
    """One round: the heading, and [(name, bytes that a rank sends, seconds)]."""
    command = [binary, "bench", "--only=collectives", "--rounds=1", f"--ranks={ranks}"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^  (\w+ \d+ KB), (\d+) bytes sent +([\d.]+) ms", output, re.M)
    heading = next(line for line in output.splitlines() if line.startswith("collectives"))
    return heading, [(name, int(sent), float(ms) / 1e3) for name, sent, ms in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    taken, tcp = {}, {}
    for _ in range(args.rounds):
        heading, rows = collectives(args.binary, args.ranks)
        for name, sent, seconds in rows:
            taken.setdefault((name, sent), []).append(seconds)
        for sent in sorted({sent for _, sent, _ in rows}):
            tcp.setdefault(sent, []).append(raw_tcp(sent))
    lines = [f"{heading[0].upper()}{heading[1:]}; medians of {args.rounds} rounds in turns with raw TCP.", "",
             "| collective | bytes a rank sends | ms | GB/s | raw TCP ms | GB/s | of raw TCP |", "|---|---|---|---|---|---|---|"]
    for (name, sent), samples in taken.items():
        ours, limit = statistics.median(samples), statistics.median(tcp[sent])
        lines.append(f"| {name} | {sent:,} | {1e3 * ours:.3f} | {sent / ours / 1e9:.2f} | {1e3 * limit:.3f} | "
                     f"{sent / limit / 1e9:.2f} | {100 * limit / ours:.0f} % |")
    report = "\n".join(lines) + "\n"
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(report)
    print(f"{report}\nwritten: {args.out}")


if __name__ == "__main__":
    main()
