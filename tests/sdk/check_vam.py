#!/usr/bin/env python3
"""A client of VAM/1.0, generated from the .proto files: check_vam.py ADDRESS PROTO_FOLDER [CERTIFICATE]

Reads a list of requests as JSON from standard input, each {"method": "RegisterActionServer", "request": {…}, "token": "…"};
makes them in this order and prints one line of JSON for each: {"code": "OK", "answer": {…}}. Fields are called as in the
.proto files. `Check` is that of gRPC's health service. With CERTIFICATE, the one authority it trusts, it speaks TLS.
"""

import importlib
import importlib.resources
import json
import pathlib
import sys
import tempfile

import grpc
from google.protobuf import json_format
from grpc_tools import protoc

DEADLINE = 60


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
        names = ["vani.v1.action_pb2", "vani.v1.action_pb2_grpc", "health_pb2", "health_pb2_grpc"]
        return [importlib.import_module(name) for name in names]


def main():
    address, folder, *certificate = sys.argv[1:]
    action, action_grpc, health, health_grpc = generated(folder)
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
    for asked in json.load(sys.stdin):
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
