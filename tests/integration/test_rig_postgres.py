"""The Postgres of the tests: a real one, and gone when it should be."""

import shutil
import subprocess
import sys

import psycopg
import pytest

from tests.rig.process import is_alive, until

pytestmark = pytest.mark.postgres


def rows(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT n FROM t")]


def fill(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS n")


def test_a_fresh_database_knows_nothing_of_the_one_before(postgres_server):
    fill(postgres_server.create_database())
    with pytest.raises(psycopg.errors.UndefinedTable):
        rows(postgres_server.create_database())


def test_a_database_can_be_copied(postgres_server):
    first = postgres_server.create_database()
    fill(first)
    name = first.rpartition("/")[2]
    assert rows(postgres_server.create_database(template=name)) == [1]


def test_a_killed_server_comes_back_with_what_was_committed(own_postgres):
    url = own_postgres.create_database()
    fill(url)
    own_postgres.kill()
    with pytest.raises(psycopg.OperationalError):
        rows(url)
    own_postgres.start()
    assert rows(url) == [1]


def test_a_stopped_server_starts_on_the_same_port(own_postgres):
    url = own_postgres.create_database()
    own_postgres.stop()
    assert not own_postgres.is_running()
    own_postgres.start()
    with pytest.raises(psycopg.errors.UndefinedTable):
        rows(url)


def test_the_server_dies_with_the_tests():
    script = (
        "import time; from tests.rig.postgres import Postgres;"
        "p = Postgres(); print(p._process.pid, p.folder, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with parent, parent.stdout as output:
        pid, folder = output.readline().split()
        parent.kill()
    until(lambda: not is_alive(int(pid)), what="the server's end")
    shutil.rmtree(folder)
