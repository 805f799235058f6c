#!/usr/bin/env python3
"""Keeps the two services up: Whisper, which listens, and Piper, which speaks, each behind Wyoming on loopback.

    serve.py FOLDER                 until it is stopped; on 10300 (Whisper) and 10200 (Piper), or WHISPER_PORT and PIPER_PORT
    serve.py FOLDER -- COMMAND …    on free ports, which COMMAND finds in WHISPER and PIPER as host:port; ends with its code

FOLDER is what prepare.py has made. A service that ends is started again after a pause that grows; one that ends RESTARTS_MAX times
without having stayed up ends all, with code 1. Both end with this program, whatever ends it.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
VOICE = "en_US-joe-medium"
# Loading takes two seconds on two cores, ten times that on a machine that has other work.
READY_SECONDS_MAX = 60
ANSWER_SECONDS_MAX = 5
RESTARTS_MAX = 6
# 1, 2, 4 … seconds before a restart.
PAUSE_SECONDS_MAX = 30
# One that has run for so long was well: its restarts are counted anew.
WELL_SECONDS = 120
STOP_SECONDS_MAX = 5
PR_SET_PDEATHSIG = 1


def say(words: str) -> None:
    print(f"neural: {words}", file=sys.stderr, flush=True)


def end_with_parent() -> None:
    """Has the kernel end this process with its parent, also where that is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def answers(port: int) -> bool:
    """Whether a Wyoming service on this port says what it is."""
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS_MAX) as connection:
            connection.sendall(b'{"type":"describe"}\n')
            return json.loads(connection.makefile("rb").readline(1 << 16)).get("type") == "info"
    except (OSError, ValueError):
        return False


class Service:
    """One process, started again when it ends."""

    def __init__(self, name: str, port: int, command: list[str]):
        self.name, self.port, self.command = name, port, command
        self.process: subprocess.Popen | None = None
        self.restarts = 0
        self.began = self.due = time.monotonic()

    def start(self) -> None:
        # A session of its own: Ctrl-C is for the command, which still needs the services to end its calls.
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=end_with_parent
        )

    def look(self) -> bool:
        """Starts it again where that is due; false when it has ended too often."""
        now = time.monotonic()
        if self.process is None:
            if now >= self.due:
                self.start()
        elif (code := self.process.poll()) is not None:
            self.process = None
            self.restarts = 1 if now - self.began > WELL_SECONDS else self.restarts + 1
            if self.restarts > RESTARTS_MAX:
                say(f"{self.name} has ended {self.restarts} times, last with code {code}; giving up")
                return False
            pause = min(2 ** (self.restarts - 1), PAUSE_SECONDS_MAX)
            self.due = now + pause
            say(f"{self.name} has ended with code {code}; again in {pause} s ({self.restarts} of {RESTARTS_MAX})")
        return True

    def is_ready(self) -> bool:
        return self.process is not None and answers(self.port)

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listening.getsockname()[1] for listening in sockets]
    for listening in sockets:
        listening.close()
    return ports


def services(folder: Path, whisper: int, piper: int) -> list[Service]:
    python, models = str(folder / "venv/bin/python"), folder / "models"
    listen = [python, str(HERE / "listen.py"), str(models / "whisper"), "--port", str(whisper)]
    speak = [python, str(HERE / "speak.py"), str(models / f"piper/{VOICE}.onnx"), "--port", str(piper)]
    return [Service("Whisper", whisper, listen), Service("Piper", piper, speak)]


class Supervisor:
    def __init__(self, all_services: list[Service]):
        self.services = all_services
        self.stopping = threading.Event()

    def watch(self) -> bool:
        return all([service.look() for service in self.services])

    def wait_ready(self) -> bool:
        """Whether all of them answer, in time."""
        began, waiting = time.monotonic(), list(self.services)
        while waiting and not self.stopping.is_set():
            if not self.watch():
                return False
            if time.monotonic() - began > READY_SECONDS_MAX:
                say(f"{' and '.join(service.name for service in waiting)} did not answer within {READY_SECONDS_MAX} s")
                return False
            waiting = [service for service in waiting if not service.is_ready()]
            self.stopping.wait(0.2 if waiting else 0)
        if not waiting:
            places = ", ".join(f"{service.name} on 127.0.0.1:{service.port}" for service in self.services)
            say(f"{places}, ready after {time.monotonic() - began:.1f} s")
        return not waiting

    def keep_up(self, command: subprocess.Popen | None) -> int:
        """Until the command ends, or all is stopped; the code to end with."""
        while not self.stopping.is_set():
            if command is not None and (code := command.poll()) is not None:
                return code if code >= 0 else 128 - code
            if not self.watch():
                if command is not None:
                    command.terminate()
                    command.wait()
                return 1
            self.stopping.wait(0.2)
        if command is not None:
            command.terminate()
            command.wait()
        return 0

    def run(self, command: list[str]) -> int:
        try:
            if not self.wait_ready():
                return 0 if self.stopping.is_set() else 1
            if not command:
                return self.keep_up(None)
            whisper, piper = (f"127.0.0.1:{service.port}" for service in self.services)
            # The terminal sends Ctrl-C to the command as well, which knows what to do.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            environment = os.environ | {"WHISPER": whisper, "PIPER": piper}
            started = subprocess.Popen(command, env=environment, preexec_fn=prepare_command)
            return self.keep_up(started)
        finally:
            for service in self.services:
                service.stop()


def prepare_command() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent()


def main() -> int:
    folder, *rest = sys.argv[1:] or [""]
    if not folder or folder.startswith("-") or (rest and (rest[0] != "--" or len(rest) < 2)):
        print(__doc__, file=sys.stderr)
        return 2
    command = rest[1:]
    if not (Path(folder) / "ready").exists():
        say(f"nothing is prepared in {folder}: {HERE / 'prepare.py'} {folder}")
        return 1
    fixed = int(os.environ.get("WHISPER_PORT", 10300)), int(os.environ.get("PIPER_PORT", 10200))
    ports = free_ports(2) if command else fixed
    supervisor = Supervisor(services(Path(folder), *ports))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: supervisor.stopping.set())
    if command:
        # For a demo: it ends with the shell that started it.
        end_with_parent()
    return supervisor.run(command)


if __name__ == "__main__":
    sys.exit(main())
