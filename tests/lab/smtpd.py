"""A mail server for tests: aiosmtpd with TLS and a login. Writes each mail that it takes as one line of JSON.

smtpd.py PORT implicit|starttls|none CERTIFICATE KEY USER PASSWORD FILE DEFER REFUSE

DEFER mails are answered 451 first, and those after them that go to an address beginning with REFUSE are
answered 550. CERTIFICATE, KEY, USER and REFUSE may be "-".
"""

import asyncio
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult

port, mode, certificate, key, user, password, path, defer, refuse = sys.argv[1:]
context = None
if certificate != "-":
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)


class Handler:
    left = int(defer)

    async def handle_DATA(self, server, session, envelope):
        if Handler.left > 0:
            Handler.left -= 1
            return "451 later"
        if refuse != "-" and any(to.startswith(refuse) for to in envelope.rcpt_tos):
            return "550 never"
        mail = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "data": envelope.content.decode("utf-8"),
            "tls": mode == "implicit" or session.ssl is not None,
            "user": session.authenticated and user,
        }
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(mail) + "\n")
        return "250 taken"


def authenticate(server, session, envelope, mechanism, login):
    right = login.login == user.encode() and login.password == password.encode()
    return AuthResult(success=right)


def protocol():
    login = {} if user == "-" else {"authenticator": authenticate, "auth_required": True}
    if mode == "starttls":
        login |= {"tls_context": context, "require_starttls": True}
    return SMTP(Handler(), hostname="mail.test", auth_require_tls=mode == "starttls", **login)


async def main():
    loop = asyncio.get_running_loop()
    implicit = context if mode == "implicit" else None
    server = await loop.create_server(protocol, "127.0.0.1", int(port), ssl=implicit)
    await server.serve_forever()


asyncio.run(main())
