"""The end of encrypted connections."""

import asyncio
import ssl

from levelwind.daemon.wire.broker_connection import open_connection
from levelwind.daemon.wire.client_security import client_security
from levelwind_testing.kafka.scripted_broker import ScriptedBroker
from levelwind_testing.security.certificates import Authority


def test_an_encrypted_connection_leaves_no_file_open(tmp_path):
    authority = Authority(tmp_path)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    identity = authority.issue("broker")
    server.load_cert_chain(identity.certificate, identity.key)
    security = {"security.protocol": "ssl", "ssl.ca.location": str(authority.certificate)}

    async def opened():
        connection = await open_connection(*broker.address, client_security(security), "test")
        used = connection._transport.get_extra_info("socket")
        connection.close()
        return used

    with ScriptedBroker(tls=server) as broker:
        assert asyncio.run(opened()).fileno() == -1
