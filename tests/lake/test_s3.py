"""A lake in a real S3-compatible store."""

from __future__ import annotations

import threading
from dataclasses import replace
from uuid import uuid4

import pytest

from datalake.errors import CredentialsError, InputError, NotFoundError
from datalake.lake import Lineage, open_lake
from datalake.uri import StorageOptions, locate
from tests.lake.conftest import KEYS, keys, selection_of
from tests.servers import BUCKET

pytestmark = pytest.mark.s3

RUN = Lineage("ingest", {"path": "x"})


@pytest.fixture
def uri() -> str:
    return f"s3://{BUCKET}/{uuid4().hex}"


@pytest.mark.parametrize("kept_as", ["lance", "delta"])
def test_tables_and_selections(s3_server: StorageOptions, uri: str, kept_as: str) -> None:
    with pytest.raises(NotFoundError, match="There is no lake here"):
        open_lake(uri, options=s3_server, create=False)
    lake = open_lake(uri, options=s3_server)
    assert lake.tables() == []
    table = lake.create("corpus", KEYS, format=kept_as, lineage=RUN)
    version = table.append(keys(5), properties=RUN.properties()).version
    lake.save_selection(selection_of([4, 2], version=version), Lineage("select"))

    again = open_lake(uri, options=s3_server, create=False)
    assert (again.tables(), again.selections()) == (["corpus"], ["some"])
    assert again["corpus"].format == kept_as
    assert again["corpus"].scan().read_all() == keys(5)
    assert again.selection("some").rows["row_index"].to_pylist() == [4, 2]
    assert again.log("corpus")[-1].run_id == RUN.run_id
    assert "selection.some" in "".join(again["corpus"].versions()[-1].tags)
    with pytest.raises(NotFoundError, match="Did you mean corpus"):
        again["corpsu"]

    again.drop_selection("some")
    again.drop("corpus")
    assert (again.tables(), again.selections()) == ([], [])


def test_what_another_process_writes_is_seen(s3_server: StorageOptions, uri: str) -> None:
    watching = open_lake(uri, options=s3_server)
    assert watching.tables() == []
    open_lake(uri, options=s3_server).create("corpus", KEYS, lineage=RUN)
    assert watching.tables() == ["corpus"]


def test_many_may_make_one_lake_at_once(s3_server: StorageOptions, uri: str) -> None:
    faults: list[Exception] = []

    def make(number: int) -> None:
        try:
            open_lake(uri, options=s3_server).create(f"t{number}", KEYS, lineage=RUN)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=make, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert open_lake(uri, options=s3_server).tables() == [f"t{n}" for n in range(4)]


def test_a_prefix_of_something_else_is_left_alone(s3_server: StorageOptions, uri: str) -> None:
    filesystem, path = locate(f"{uri}/theirs/notes.txt", s3_server).filesystem()
    filesystem.pipe_file(path, b"x")
    with pytest.raises(InputError, match=r"not empty.*theirs"):
        open_lake(uri, options=s3_server)


def test_a_bucket_that_is_not_there(s3_server: StorageOptions) -> None:
    with pytest.raises(NotFoundError, match="There is no lake here"):
        open_lake("s3://nowhere/lake", options=s3_server, create=False)


def test_wrong_credentials(s3_server: StorageOptions, uri: str) -> None:
    for wrong in (replace(s3_server, secret_key="x"), replace(s3_server, access_key="x")):
        with pytest.raises(CredentialsError, match="AWS_ACCESS_KEY_ID"):
            open_lake(uri, options=wrong)
