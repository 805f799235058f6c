"""A server of the reference library: wyoming_server.py plain|streaming|speaking

Prints its port, and ends when its standard input does. The first two listen and tell what they have heard: a plain server
closes the connection after a transcript, a streaming one tells it in chunks as well. The third speaks: 100 ms of a tone for
each word, higher for another voice. It refuses a text with the word "nothing".
"""

import asyncio
import math
import struct
import sys

from wyoming.asr import Transcribe, Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.info import Attribution, Describe, Info, TtsProgram, TtsVoice
from wyoming.server import AsyncEventHandler
from wyoming.tts import Synthesize

KIND = sys.argv[1]
STREAMING = KIND == "streaming"
# The rate of Piper's voices of medium quality.
RATE = 22050
WORD = RATE // 10
# Of a voice by its name and speaker, by its language, and of the server's own choice.
PITCHES = {("high", "ada", None): 1320, (None, None, "de"): 990, (None, None, None): 660}
# No whole number of frames, so that chunks end anywhere.
CHUNK = 1000


class Listener(AsyncEventHandler):
    def __init__(self, reader, writer):
        super().__init__(reader, writer)
        self.asked = None
        self.start = None
        self.milliseconds = 0.0

    async def handle_event(self, event):
        if Transcribe.is_type(event.type):
            self.asked = Transcribe.from_event(event)
        elif AudioStart.is_type(event.type):
            self.start = AudioStart.from_event(event)
        elif AudioChunk.is_type(event.type):
            self.milliseconds += 1000 * AudioChunk.from_event(event).seconds
        elif AudioStop.is_type(event.type):
            return await self.answer()
        return True

    async def answer(self):
        if self.asked is None or self.start is None:
            await self.write_event(Error(text="nothing was asked for", code="no_request").event())
            return False
        shape = f"{self.start.rate} Hz, {self.start.width} bytes, {self.start.channels} channel"
        biased = ", ".join((self.asked.transcript_names or []) + (self.asked.transcript_terms or []))
        text = f"{round(self.milliseconds)} ms of {shape} for {self.asked.name} in {self.asked.language}: {biased}"
        if STREAMING:
            await self.write_event(TranscriptStart(language=self.asked.language).event())
            for word in text.split(" "):
                await self.write_event(TranscriptChunk(text=word + " ").event())
        await self.write_event(Transcript(text=text, language=self.asked.language).event())
        if STREAMING:
            await self.write_event(TranscriptStop().event())
        return STREAMING


def program(kind, name, **more):
    nobody = Attribution(name="", url="")
    return kind(name=name, attribution=nobody, description=None, version=None, **more)


# One that could be fetched is not there.
VOICES = [
    program(TtsVoice, "high", installed=True, languages=["en"]),
    program(TtsVoice, "missing", installed=False, languages=["en"]),
]


class Speaker(AsyncEventHandler):
    async def handle_event(self, event):
        if Describe.is_type(event.type):
            await self.write_event(Info(tts=[program(TtsProgram, "tones", installed=True, voices=VOICES)]).event())
            return True
        if not Synthesize.is_type(event.type):
            await self.write_event(Error(text="what is that?", code="no_request").event())
            return False
        asked = Synthesize.from_event(event)
        voice = asked.voice
        pitch = PITCHES.get((voice.name, voice.speaker, voice.language) if voice else (None, None, None))
        words = asked.text.split()
        if pitch is None or "nothing" in words:
            await self.write_event(Error(text=f"cannot say {asked.text}", code="no_voice").event())
            return True
        samples = (12000 * math.sin(math.tau * pitch * i / RATE) for i in range(len(words) * WORD))
        audio = b"".join(struct.pack("<h", round(sample)) for sample in samples)
        await self.write_event(AudioStart(rate=RATE, width=2, channels=1).event())
        for at in range(0, len(audio), CHUNK):
            chunk = audio[at : at + CHUNK]
            await self.write_event(AudioChunk(rate=RATE, width=2, channels=1, audio=chunk).event())
        await self.write_event(AudioStop().event())
        return True


async def main():
    handler = Speaker if KIND == "speaking" else Listener
    server = await asyncio.start_server(lambda *streams: handler(*streams).run(), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
