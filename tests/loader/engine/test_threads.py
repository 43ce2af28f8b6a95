"""A crew works, passes errors on, and is not waited for."""

import subprocess
import sys
import threading

import pytest

from datalake.loader.engine.threads import Crew
from tests.patience import PATIENCE_S


def test_a_crew_does_what_is_submitted():
    crew = Crew(2, "crew")
    futures = [crew.submit(pow, 2, n) for n in range(20)]
    assert [future.result(5) for future in futures] == [2**n for n in range(20)]
    assert crew.close(5)


def test_an_error_arrives():
    crew = Crew(1, "crew")
    with pytest.raises(ZeroDivisionError):
        crew.submit(divmod, 1, 0).result(5)
    assert crew.submit(int, "3").result(5) == 3
    assert crew.close(5)


def test_a_stuck_thread_is_told_of_and_not_waited_for():
    crew, release = Crew(1, "crew"), threading.Event()
    crew.submit(release.wait)
    assert not crew.close(0.05)
    release.set()


def test_python_ends_although_a_thread_is_stuck():
    code = (
        "import threading\n"
        "from datalake.loader.engine.threads import Crew\n"
        "Crew(1, 'crew').submit(threading.Event().wait)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=PATIENCE_S).returncode == 0
