"""How long pages take to answer, asked again and again as an operator who is signed in."""

import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http.cookiejar import CookieJar
from types import TracebackType
from typing import Self

from dashboard.demo.options import GROUP, Options
from dashboard.demo.prepare import read_login
from dashboard.demo.tree import TreeFailed

PATHS = ("/readyz", "/", f"/groups/{GROUP}/", f"/groups/{GROUP}/members/", "/groups/")
GIVE_UP_S = 30.0
PAUSE_S = 0.2
SERVER_ERROR = 500  # with a sentence of its own a page says 503


@dataclass(frozen=True, slots=True)
class Answer:
    path: str
    took_ms: int
    status: int | None  # None: no answer


class Pages:
    """Signs in when it is made. Each path is asked by a thread of its own."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.cookies = CookieJar()
        self.answers: list[Answer] = []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self._ask, args=(path,)) for path in PATHS]
        self._sign_in()

    def _opener(self) -> urllib.request.OpenerDirector:
        return urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def _sign_in(self) -> None:
        opener, url = self._opener(), f"{self.options.url}/login/"
        form = opener.open(url, timeout=GIVE_UP_S).read().decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
        if token is None:
            raise TreeFailed("the login page has no form")
        name, password = read_login(self.options.data / "login")
        values = {"username": name, "password": password, "csrfmiddlewaretoken": token[1]}
        sent = urllib.request.Request(
            url, urllib.parse.urlencode(values).encode(), headers={"Referer": url}
        )
        opener.open(sent, timeout=GIVE_UP_S).read()

    def watch(self) -> None:
        for thread in self.threads:
            thread.start()

    def _ask(self, path: str) -> None:
        opener = self._opener()
        while not self.over.wait(PAUSE_S):
            began = time.monotonic()
            status: int | None = None
            try:
                with opener.open(f"{self.options.url}{path}", timeout=GIVE_UP_S) as answer:
                    answer.read()
                    status = answer.status
            except urllib.error.HTTPError as error:
                status = error.code
            except OSError:
                pass
            took_ms = round((time.monotonic() - began) * 1_000)
            self.answers.append(Answer(path, took_ms, status))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.over.set()
        for thread in self.threads:
            if thread.ident is not None:
                thread.join()

    def judged(self, most_ms: int) -> tuple[int, list[str]]:
        """The slowest answer, and what is wrong with any; ends the asking."""
        self.__exit__(None, None, None)
        return judge(self.answers, most_ms)


def judge(answers: list[Answer], most_ms: int) -> tuple[int, list[str]]:
    wrong = []
    for path in sorted({answer.path for answer in answers}):
        of = [answer for answer in answers if answer.path == path]
        if (slowest := max(answer.took_ms for answer in of)) > most_ms:
            wrong.append(f"{path} took {slowest} ms")
        bad = sorted({str(a.status) for a in of if a.status in (None, SERVER_ERROR)})
        wrong += [f"{path} answered {status}" for status in bad]
    return max((answer.took_ms for answer in answers), default=0), wrong
