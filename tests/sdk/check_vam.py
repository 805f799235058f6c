#!/usr/bin/env python3
"""A client of VAM/1.0, generated from the .proto files: check_vam.py ADDRESS PROTO_FOLDER [CERTIFICATE]

Reads a list of requests as JSON from standard input, each {"method": "RegisterActionServer", "request": {…}, "token": "…"};
makes them in this order and prints one line of JSON for each: {"code": "OK", "answer": {…}}. Fields are called as in the
.proto files. `Converse` is a whole conversation, as told below. `Check` is that of gRPC's health service. With CERTIFICATE, the one authority it trusts, it speaks TLS.
"""

import base64
import gc
import importlib
import importlib.resources
import json
import math
import pathlib
import queue
import struct
import sys
import tempfile
import threading
import time

import grpc
from google.protobuf import json_format
from grpc_tools import protoc

DEADLINE = 60


# A call of grpc takes its own lock when the collector frees it, also where that lock is held: then it never ends. This program is
# over before anything has to be collected.
gc.disable()


def generated(folder):
    """The modules of the three files, and of the health service."""
    with tempfile.TemporaryDirectory() as made:
        health = pathlib.Path(made, "health.proto")
        health.write_text(
            'syntax = "proto3"; package grpc.health.v1;'
            "message HealthCheckRequest { string service = 1; }"
            "message HealthCheckResponse { int32 status = 1; }"
            "service Health { rpc Check(HealthCheckRequest) returns (HealthCheckResponse); }"
        )
        well_known = importlib.resources.files("grpc_tools").joinpath("_proto")
        files = [str(file.relative_to(folder)) for file in pathlib.Path(folder, "vani/v1").glob("*.proto")]
        arguments = ["protoc", f"-I{folder}", f"-I{made}", f"-I{well_known}", f"--python_out={made}"]
        if protoc.main([*arguments, f"--grpc_python_out={made}", *files, health.name]) != 0:
            sys.exit("protoc failed")
        sys.path.insert(0, made)
        kinds = ["vani.v1.action", "vani.v1.session", "vani.v1.stream", "health"]
        names = [kind + ending for kind in kinds for ending in ("_pb2", "_pb2_grpc")]
        return [importlib.import_module(name) for name in names]


def converse(asked, action, session, stream, stubs):
    """Holds a conversation: {"session": {…}, "tone": SECONDS, "silence": SECONDS, "until": NAMES, "interrupts": true, "chunks": [{…}], "at": SECONDS, "end": true}.

    Sends a tone, then silence, at the pace of speech, and its `chunks`, as they are, `at` this time, first of all by default;
    with `interrupts` marks what it sends as voiced once the gateway has spoken for 300 ms. Ends by EndSession with `end`, else by closing its side;
    what it has not answered until then it answers `answers_after_end` seconds later. Tells what
    came, each run of audio as one entry with its length, and when in `at_ms`. Each action is answered by the next of `answers`, a list of
    results as in the .proto files; each list is sent as it is, with what it does not say taken from the request, and "garbage"
    is what cannot be decoded. Answers are held back for `delay` seconds of chunks. Told as well is how long after the first
    action the agent spoke. With `packets`, these are sent instead of tone and silence, one each 20 ms; with `keep`, the bytes
    of what came are told. Both are in base64. A chunk of `raw` is sent as these bytes, in base64 too, in place of a message.
    With `until`, it sends no more once events of these names have come in this order, whatever came between them; a transcript is
    `words`. What is to be sent is then only a limit.
    """
    sessions, streams = stubs
    begun = sessions.InitSession(json_format.ParseDict(asked["session"], session.SessionInitRequest()), timeout=DEADLINE)
    told = {"init": json_format.MessageToDict(begun, preserving_proto_field_name=True), "events": []}
    session_id = asked.get("stream_of", begun.session_id)
    rate = begun.negotiated_audio_profile.sample_rate or 8000
    codec = begun.negotiated_audio_profile.codec
    state = {"spoken": 0.0, "voiced": None, "over": False, "acted": None}
    ended = threading.Event()
    results, held, answers, names = queue.SimpleQueue(), [], iter(asked.get("answers", [])), []
    loud = struct.pack(f"<{rate // 50}h", *(int(12000 * math.sin(n * 440 * 2 * math.pi / rate)) for n in range(rate // 50)))

    def message(number, audio, voiced=False):
        chunk = stream.AudioChunk(session_id=session_id, sequence_number=number, audio_bytes=audio, codec=codec)
        chunk.vad_hint = stream.VAD_SIGNAL_VOICED if voiced else stream.VAD_SIGNAL_UNVOICED
        return stream.ClientStreamMessage(audio_chunk=chunk)

    def tell(event):
        told["events"].append(event)
        names.append(event["event"])

    def satisfied():
        came = iter(list(names))
        return "until" in asked and all(name in came for name in asked["until"].split(" "))

    def sends():
        began, tones = time.monotonic(), int(asked.get("tone", 0) * 50)
        packets = [base64.b64decode(packet) for packet in asked.get("packets", [])]
        for number in range(len(packets) or tones + int(asked.get("silence", 0) * 50)):
            if state["over"]:
                return
            if satisfied():
                break
            for chunk in asked.get("chunks", []) if number == int(asked.get("at", 0) * 50) else []:
                if "raw" in chunk:
                    yield base64.b64decode(chunk["raw"])
                    continue
                fields = {"session_id": session_id, "codec": codec, **chunk}
                yield stream.ClientStreamMessage(audio_chunk=json_format.ParseDict(fields, stream.AudioChunk()))
            interrupts = asked.get("interrupts") and state["spoken"] and time.monotonic() - state["spoken"] > 0.3
            if interrupts and not state["voiced"]:
                state["voiced"] = time.monotonic()
            while not results.empty():
                held.append((number + int(asked.get("delay", 0) * 50), results.get()))
            while held and held[0][0] <= number:
                yield stream.ClientStreamMessage(action_result_payload=held.pop(0)[1])
            audio = loud if number < tones or interrupts else bytes(len(loud))
            audio = packets[number] if packets else audio
            yield message(number, audio, bool(interrupts))
            time.sleep(max(0, began + (number + 1) * 0.02 - time.monotonic()))
        if asked.get("end"):
            threading.Thread(target=ends, daemon=True).start()
            if "answers_after_end" in asked:
                time.sleep(asked["answers_after_end"])
            while not ended.is_set():
                for _, result in held:
                    yield stream.ClientStreamMessage(action_result_payload=result)
                held.clear()
                if not results.empty():
                    held.append((0, results.get()))
                time.sleep(0.02)

    def ends():
        told["end_at_ms"] = round((time.monotonic() - opened) * 1000)
        notice = session.SessionEndNotice(session_id=session_id)
        told["end"] = json_format.MessageToDict(sessions.EndSession(notice, timeout=DEADLINE), preserving_proto_field_name=True)
        told["ended_at_ms"] = round((time.monotonic() - opened) * 1000)
        ended.set()

    opened = time.monotonic()
    try:
        for came in streams.AgentStream(sends(), timeout=DEADLINE):
            kind, now = came.WhichOneof("payload"), time.monotonic()
            if kind == "turn_signal":
                event = stream.TurnEvent.Name(came.turn_signal.event).removeprefix("TURN_EVENT_")
                tell({"event": event, "turn_id": came.turn_signal.turn_id, "at_ms": round((now - opened) * 1000)})
                if event == "SPEAKING" and not state["spoken"]:
                    state["spoken"] = now
                if event == "INTERRUPTED" and state["voiced"]:
                    told["interrupted_after_ms"] = round((now - state["voiced"]) * 1000)
            elif kind == "synthesis_chunk":
                chunk, last = came.synthesis_chunk, told["events"][-1] if told["events"] else {}
                if last.get("event") != "audio":
                    last = {"event": "audio", "ms": 0, "final": False, "codec": session.AudioCodec.Name(chunk.codec)}
                    last["at_ms"] = round((now - opened) * 1000)
                    tell(last)
                if state["acted"]:
                    told.setdefault("spoke_after_action_ms", round((now - state["acted"]) * 1000))
                last["ms"] += chunk.duration_ms
                if asked.get("keep"):
                    last.setdefault("packets", []).append(base64.b64encode(chunk.audio_bytes).decode())
                last["final"] = chunk.is_final
            elif kind == "stream_error":
                error = json_format.MessageToDict(came.stream_error, preserving_proto_field_name=True)
                tell({"event": error["code"].removeprefix("STREAM_ERROR_CODE_"), **error})
            elif kind == "action_request_payload":
                request = action.ActionRequestEnvelope.FromString(came.action_request_payload)
                state["acted"] = state["acted"] or now
                tell({"event": "ACTION", **json_format.MessageToDict(request, preserving_proto_field_name=True)})
                for result in next(answers, []):
                    if result == "garbage":
                        results.put(b"\xff\xff\xff")
                        continue
                    fields = {"session_id": request.session_id, "call_id": request.call_id, **result}
                    results.put(json_format.ParseDict(fields, action.ActionResultEnvelope()).SerializeToString())
            elif kind == "transcript_event":
                words = json_format.MessageToDict(came.transcript_event, preserving_proto_field_name=True)
                names.append("words")
                told.setdefault("words", []).append({**words, "at_ms": round((now - opened) * 1000)})
            else:
                tell({"event": kind, **json_format.MessageToDict(getattr(came, kind), preserving_proto_field_name=True)})
        told["code"] = "OK"
    except grpc.RpcError as error:
        told["code"] = error.code().name
    state["over"] = True
    if asked.get("end"):
        # The stream may be over before that is answered.
        ended.wait(DEADLINE)
    return told


def main():
    address, folder, *certificate = sys.argv[1:]
    action, action_grpc, session, session_grpc, stream, stream_grpc, health, health_grpc = generated(folder)
    if certificate:
        trusted = grpc.ssl_channel_credentials(pathlib.Path(certificate[0]).read_bytes())
        channel = grpc.secure_channel(address, trusted)
    else:
        channel = grpc.insecure_channel(address)
    actions, checks = action_grpc.VaniActionServiceStub(channel), health_grpc.HealthStub(channel)
    requests = {
        "RegisterActionServer": (actions, action.ActionServerManifest),
        "DeregisterActionServer": (actions, action.DeregisterActionServerRequest),
        "ListActionServers": (actions, action.ListActionServersRequest),
        "Check": (checks, health.HealthCheckRequest),
    }
    talk = session_grpc.VaniSessionServiceStub(channel), stream_grpc.VaniStreamServiceStub(channel)
    talk[1].AgentStream = channel.stream_stream(
        "/vani.v1.VaniStreamService/AgentStream",
        request_serializer=lambda said: said if isinstance(said, bytes) else said.SerializeToString(),
        response_deserializer=stream.GatewayStreamMessage.FromString,
    )
    for asked in json.load(sys.stdin):
        if asked["method"] == "Converse":
            print(json.dumps(converse(asked, action, session, stream, talk)), flush=True)
            continue
        stub, kind = requests[asked["method"]]
        request = json_format.ParseDict(asked.get("request", {}), kind())
        token = asked.get("token")
        metadata = [("authorization", f"Bearer {token}")] if token else []
        try:
            answer = getattr(stub, asked["method"])(request, metadata=metadata, timeout=DEADLINE)
        except grpc.RpcError as error:
            told = {"code": error.code().name, "details": error.details()}
        else:
            told = {"code": "OK", "answer": json_format.MessageToDict(answer, preserving_proto_field_name=True)}
        print(json.dumps(told), flush=True)


main()
