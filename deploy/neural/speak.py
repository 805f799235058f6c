#!/usr/bin/env python3
"""A Wyoming server that speaks with Piper: speak.py VOICE.onnx [--port PORT] [--threads N]

VOICE.onnx has its configuration VOICE.onnx.json beside it. The server listens on loopback only. Piper is GPL-3.0: it is loaded by
this process alone, which offhook knows by its address.

Of a text each sentence is sent as soon as it is made, and a client that goes, because the caller interrupts, is not spoken for any
more.
"""

from __future__ import annotations

import argparse
import json
import threading
from pathlib import Path

from events import Client, Refused, Server, described

# As offhook sends no more for one clause.
CHARS_MAX = 4_000
# A quarter of a second at the voice's rate: short enough to be heard at once, and few events for a sentence.
CHUNK_SAMPLES = 5_512
# The first clause of an answer is often short, and asked for together with a long one: it does not wait for that.
WORKERS = 2


class Piper:
    """Texts to samples, a sentence at a time."""

    def __init__(self, model: str, threads: int):
        import onnxruntime
        from piper import PiperConfig, PiperVoice

        options = onnxruntime.SessionOptions()
        # One thread makes speech in a tenth of its length. More are faster only where nothing else runs.
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        with open(f"{model}.json", encoding="utf-8") as file:
            self.voice = PiperVoice(session=session, config=PiperConfig.from_dict(json.load(file)))
        # espeak-ng, which makes the phonemes, has one state for a process.
        self.phonemes, phonemize = threading.Lock(), self.voice.phonemize
        self.voice.phonemize = lambda text: self.one_at_a_time(phonemize, text)
        self.name, self.rate = Path(model).stem, self.voice.config.sample_rate
        # The first sentence after loading takes longer than all others: no caller waits for it.
        list(self.sentences("Ready."))

    def one_at_a_time(self, phonemize, text: str):
        with self.phonemes:
            return phonemize(text)

    def sentences(self, text: str):
        return (sentence.audio_int16_bytes for sentence in self.voice.synthesize(text))


class Speaker(Server):
    """Answers `synthesize` with the sound of its text."""

    def __init__(self, piper: Piper):
        made_by = ("Piper", "https://github.com/OHF-Voice/piper1-gpl")
        voice = {"languages": ["en"], **described(piper.name, *made_by)}
        super().__init__({"tts": [{**described("piper", *made_by), "voices": [voice]}]}, WORKERS)
        self.piper = piper

    async def request(self, client: Client, kind: str, data: dict, payload: bytes) -> None:
        if kind != "synthesize":
            return
        text, voice = data.get("text"), data.get("voice") or {}
        if not isinstance(text, str) or len(text) > CHARS_MAX:
            raise Refused(f"a text of at most {CHARS_MAX} characters is needed", "no_text")
        if voice.get("name") not in (None, self.piper.name):
            raise Refused("this voice is not installed", "no_voice")
        shape = {"rate": self.piper.rate, "width": 2, "channels": 1}
        sentences = self.piper.sentences(" ".join(text.split()))
        started = False
        while sound := await self.work(client, next, sentences, None):
            if not started:
                await client.send("audio-start", shape)
                started = True
            for at in range(0, len(sound), 2 * CHUNK_SAMPLES):
                await client.send("audio-chunk", shape, sound[at : at + 2 * CHUNK_SAMPLES])
        if not started:
            await client.send("audio-start", shape)
        await client.send("audio-stop", {})


def main() -> None:
    parser = argparse.ArgumentParser(description="A Wyoming server that speaks with Piper.")
    parser.add_argument("voice", help="the voice's file; its configuration is beside it")
    parser.add_argument("--port", type=int, default=10200)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    Speaker(Piper(arguments.voice, arguments.threads)).run("Piper", arguments.port)


if __name__ == "__main__":
    main()
