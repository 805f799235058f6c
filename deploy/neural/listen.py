#!/usr/bin/env python3
"""A Wyoming server that writes down utterances with Whisper: listen.py MODEL [--port PORT] [--language en] [--threads N]

MODEL is a folder in the format of CTranslate2 (model.bin, config.json, vocabulary.json). The server listens on loopback only:
Wyoming has neither encryption nor passwords.

Whisper was trained on windows of 30 s and costs as much for one word as for a window that is full. The encoder takes shorter ones:
10 s, or the utterance and 1 s of room behind it, need a seventh of the time and lose no words. Longer utterances are heard in
windows of 30 s, one after the other.
"""

from __future__ import annotations

import argparse
import json

from events import Client, Refused, Server, described

RATE = 16_000
# The longest turn that offhook sends: 10 MB for each client.
SECONDS_MAX = 300
HOP = 160
FRAMES_MIN, FRAMES_MAX, ROOM = 1000, 3000, 100
# Both together: nobody spoke. The figures are those of the reference implementation.
NO_SPEECH_MIN, LIKELIHOOD_MAX = 0.6, -1.0


class Whisper:
    """Samples to text, one utterance at a time."""

    def __init__(self, folder: str, language: str, threads: int):
        import ctranslate2
        import numpy

        self.numpy, self.storage = numpy, ctranslate2.StorageView
        self.model = ctranslate2.models.Whisper(folder, device="cpu", compute_type="int8", intra_threads=threads)
        self.language = language
        with open(f"{folder}/vocabulary.json", encoding="utf-8") as file:
            self.languages = {token[2:-2] for token in json.load(file) if token.startswith("<|") and len(token) <= 7}
        if language not in self.languages:
            raise ValueError(f"the model knows no language {language!r}")
        self.filters = self.mel_filters()
        # Of the byte-level BPE: a printable character stands for each byte.
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in printable]
        self.bytes = {chr(byte): byte for byte in printable} | {chr(256 + nth): byte for nth, byte in enumerate(others)}
        # The first utterance after loading takes longer than all others: nobody waits for it.
        self.write(bytes(2 * RATE))

    def mel_filters(self):
        """80 Slaney mels of 0 to 8000 Hz over a spectrum of 400 points, each of area 1."""
        np = self.numpy
        mels = np.linspace(0, 15 + 27 * np.log(8) / np.log(6.4), 82)
        hertz = np.where(mels < 15, mels * 200 / 3, 1000 * np.exp((mels - 15) * np.log(6.4) / 27))
        slopes = (hertz[:, None] - np.fft.rfftfreq(400, 1 / RATE)) / 1.0
        widths = np.diff(hertz)[:, None]
        rising, falling = -slopes[:-2] / widths[:-1], slopes[2:] / widths[1:]
        return np.maximum(0, np.minimum(rising, falling)) * (2 / (hertz[2:] - hertz[:-2]))[:, None]

    def features(self, samples):
        """Whisper's log-mel spectrogram, padded to the window that the encoder gets."""
        np = self.numpy
        padded = np.pad(samples, (200, 200), mode="reflect")
        frames = np.lib.stride_tricks.sliding_window_view(padded, 400)[::HOP][: len(samples) // HOP]
        power = np.abs(np.fft.rfft(frames * np.hanning(401)[:-1])) ** 2
        mel = np.log10(np.maximum(self.filters @ power.T, 1e-10))
        mel = (np.maximum(mel, mel.max() - 8) + 4) / 4
        window = min(FRAMES_MAX, max(FRAMES_MIN, mel.shape[1] + ROOM))
        return np.pad(mel, ((0, 0), (0, max(0, window - mel.shape[1]))))[None, :, :window].astype(np.float32)

    def write(self, audio: bytes, language: str | None = None) -> str:
        samples = self.numpy.frombuffer(audio[: len(audio) // 2 * 2], dtype="<i2") / 32768
        size = FRAMES_MAX * HOP
        texts = (self.window(samples[at : at + size], language or self.language) for at in range(0, len(samples), size))
        return " ".join(filter(None, texts))

    def window(self, samples, language: str) -> str:
        # Nothing that short is a word.
        if len(samples) < RATE // 10:
            return ""
        features = self.features(samples)
        prompt = ["<|startoftranscript|>", f"<|{language}|>", "<|transcribe|>", "<|notimestamps|>"]
        # Single letters can make it write one letter for ever.
        most = len(prompt) + 16 + min(len(samples) // HOP, FRAMES_MAX) // 12
        encoded = self.model.encode(self.storage.from_array(features))
        [result] = self.model.generate(
            encoded, [prompt], beam_size=1, max_length=most, return_scores=True, return_no_speech_prob=True
        )
        if result.no_speech_prob > NO_SPEECH_MIN and result.scores[0] < LIKELIHOOD_MAX:
            return ""
        tokens = (token for token in result.sequences[0] if not token.startswith("<|"))
        return bytes(self.bytes[letter] for token in tokens for letter in token).decode(errors="replace").strip()


class Listener(Server):
    """For each utterance: transcribe, audio-start, audio-chunk …, audio-stop."""

    def __init__(self, whisper: Whisper):
        model = {"languages": sorted(whisper.languages), **described("base", "OpenAI", "https://github.com/openai/whisper")}
        super().__init__({"asr": [{**described("whisper", "OpenAI", "https://github.com/openai/whisper"), "models": [model]}]}, 1)
        self.whisper = whisper

    def session(self):
        audio, language = bytearray(), self.whisper.language

        async def handle(client: Client, kind: str, data: dict, payload: bytes) -> None:
            nonlocal language
            if kind == "transcribe":
                language = data.get("language") or self.whisper.language
                if language not in self.whisper.languages:
                    raise Refused("the model does not know this language", "no_language")
            elif kind == "audio-start":
                audio.clear()
            elif kind == "audio-chunk":
                if (data.get("rate"), data.get("width"), data.get("channels")) != (RATE, 2, 1):
                    raise Refused(f"audio has to be {RATE} Hz, 16 bits, one channel", "no_format")
                if len(audio) + len(payload) > SECONDS_MAX * RATE * 2:
                    raise Refused(f"more than {SECONDS_MAX} s at a time", "too_long")
                audio.extend(payload)
            elif kind == "audio-stop":
                text = await self.work(client, self.whisper.write, bytes(audio), language)
                audio.clear()
                await client.send("transcript", {"text": text, "language": language})

        return handle


def main() -> None:
    parser = argparse.ArgumentParser(description="A Wyoming server that writes down utterances with Whisper.")
    parser.add_argument("model", help="folder of the model, in the format of CTranslate2")
    parser.add_argument("--port", type=int, default=10300)
    parser.add_argument("--language", default="en", help="where a request names none")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    Listener(Whisper(arguments.model, arguments.language, arguments.threads)).run("Whisper", arguments.port)


if __name__ == "__main__":
    main()
