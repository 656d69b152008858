"""Takes what the dashboard and Redis would get, and does nothing with it:
`python -m dashboard.evaluation.beside.idle`. Its first line tells both ports.

What attackers and this machine spend on sending is so in both phases that are compared.
"""

import asyncio

import hiredis

from dashboard.evaluation.beside.speaking import HOST, READ_BYTES

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
            writer.write(ANSWER)
    except (OSError, EOFError):
        writer.close()


async def redis(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    parser = hiredis.Reader()
    try:
        while read := await reader.read(READ_BYTES):
            parser.feed(read)
            while parser.gets() is not False:
                writer.write(b"+OK\r\n")
    except OSError:
        pass
    writer.close()


async def main() -> None:
    servers = [await asyncio.start_server(one, HOST, 0) for one in (web, redis)]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
