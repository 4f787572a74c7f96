"""A streaming standby of a test's server."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from flusso.demo.server import EmbeddedServer


def create_standby(primary: EmbeddedServer, *, slot: str | None = None, **settings: str) -> EmbeddedServer:
    """Copy a running server and start the copy as its standby; `slot` names its physical slot, if any."""
    folder = Path(tempfile.mkdtemp(prefix="flusso-standby-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    standby = EmbeddedServer(primary.binaries, folder, port, primary.user)
    try:
        if primary.user is not None:
            os.chown(folder, pwd.getpwnam(primary.user).pw_uid, -1)
        command = [primary.binaries / "pg_basebackup", "-D", standby.data, "-d", primary.dsn(), "-R"]
        command += ["-c", "fast", "--no-sync", *(["-S", slot, "-C"] if slot else [])]
        subprocess.run(
            [str(word) for word in command],
            user=primary.user,
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=120,
        )
        own = {"port": str(port), "unix_socket_directories": str(folder), **settings}
        with (standby.data / "postgresql.conf").open("a") as config:
            config.write("".join(f"{name} = '{value}'\n" for name, value in own.items()))
        standby.start()
    except BaseException:
        if (standby.data / "postmaster.pid").exists():
            standby.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return standby
