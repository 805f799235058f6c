"""A server of the reference library that tells what it has heard: wyoming_server.py plain|streaming

Prints its port, and ends when its standard input does. A plain server closes the connection after a transcript, a
streaming one tells it in chunks as well.
"""

import asyncio
import sys

from wyoming.asr import Transcribe, Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.server import AsyncEventHandler

STREAMING = sys.argv[1] == "streaming"


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


async def main():
    server = await asyncio.start_server(lambda *streams: Listener(*streams).run(), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
