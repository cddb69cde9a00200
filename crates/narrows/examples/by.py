#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends a file over TCP by a deadline of its own. Under `narrows by`:

    narrows by +1h -- ./by.py HOST PORT FILE SECONDS

Without `narrows by` it says so and sends as ever. The numbers are those of narrows_by.h.
"""
import os
import socket
import struct
import sys

SOL_NARROWS = 0x4E57
NARROWS_BY_DEADLINE, NARROWS_BY_SIZE, NARROWS_BY_STATUS = 1, 2, 3
# left_us, remaining, target, achieved, weight, short_of
STATUS = struct.Struct("=QQQQII")


def main() -> None:
    host, port, path, seconds = sys.argv[1:]
    with open(path, "rb") as file, socket.create_connection((host, int(port))) as sock:
        try:
            size = struct.pack("=Q", os.fstat(file.fileno()).st_size)
            sock.setsockopt(SOL_NARROWS, NARROWS_BY_SIZE, size)
            microseconds = struct.pack("=Q", int(float(seconds) * 1e6))
            sock.setsockopt(SOL_NARROWS, NARROWS_BY_DEADLINE, microseconds)
        except OSError as error:
            print(f"not under `narrows by`: {error.strerror}", file=sys.stderr)
        sock.sendfile(file)
        try:
            status = sock.getsockopt(SOL_NARROWS, NARROWS_BY_STATUS, STATUS.size)
            left_us, remaining, _, _, weight, _ = STATUS.unpack(status)
            print(f"{remaining} bytes to go, {left_us / 1e6:.1f} s left, weight {weight / 1000:.2f}")
        except OSError:
            pass
        sock.shutdown(socket.SHUT_WR)
        # The other end closes once it has all.
        while sock.recv(4096):
            pass


if __name__ == "__main__":
    main()
