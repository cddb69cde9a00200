#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends a line by the split proxy, and prints what comes back:

    LIBRARY=target/release/libnarrows_pep_client.so ./ask.py PROXY PORT HOST PORT LINE [early|only]

As ask.c does; what the fields mean is said in narrows_pep_client.h.
"""
import ctypes
import os
import socket
import struct
import sys

ONLY = 1
BY_PROXY, PROXY_MISSING, PROXY_REFUSED = 1, 2, 3


class Via(ctypes.Structure):
    _fields_ = [
        ("proxy", ctypes.c_char_p),
        ("proxy_len", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("patience_ms", ctypes.c_uint32),
        ("direct_ms", ctypes.c_uint32),
        ("early", ctypes.c_char_p),
        ("early_len", ctypes.c_size_t),
    ]


class How(ctypes.Structure):
    _fields_ = [("way", ctypes.c_int), ("error", ctypes.c_int), ("fault", ctypes.c_int)]

    def __str__(self) -> str:
        if self.way == BY_PROXY:
            return "by the proxy"
        if self.way == PROXY_MISSING:
            return f"without the proxy: {os.strerror(self.error)}"
        return f"without the proxy: it refuses, code {self.fault}"


def sockaddr(host: str, port: str) -> bytes:
    """The first address of a host, as C has it."""
    family, _, _, _, at = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    address = socket.inet_pton(family, at[0].split("%")[0])
    head = struct.pack("=H", family) + struct.pack("!H", at[1])
    if family == socket.AF_INET:
        return head + address + bytes(8)
    return head + struct.pack("=I", at[2]) + address + struct.pack("=I", at[3])


def connect(to: bytes, via: Via) -> tuple[socket.socket, How]:
    library = ctypes.CDLL(os.environ.get("LIBRARY", "libnarrows_pep_client.so"), use_errno=True)
    library.narrows_connect.argtypes = [
        ctypes.c_char_p,
        ctypes.c_uint32,
        ctypes.POINTER(Via),
        ctypes.POINTER(How),
    ]
    how = How()
    fd = library.narrows_connect(to, len(to), via, how)
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)} ({how})")
    return socket.socket(fileno=fd), how


def main() -> None:
    proxy = sockaddr(*sys.argv[1:3])
    to = sockaddr(*sys.argv[3:5])
    line, option = sys.argv[5].encode(), sys.argv[6:]
    via = Via(proxy=proxy, proxy_len=len(proxy))
    if option == ["only"]:
        via.flags = ONLY
    if option == ["early"]:
        via.early, via.early_len = line, len(line)
    sock, how = connect(to, via)
    print(how, file=sys.stderr)
    with sock:
        if not via.early_len:
            sock.sendall(line)
        sock.shutdown(socket.SHUT_WR)
        while piece := sock.recv(4096):
            sys.stdout.buffer.write(piece)


if __name__ == "__main__":
    main()
