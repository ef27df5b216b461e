"""`andon serve`: the HTTP service, until told to stop."""

import logging

import click

from andon.cli.apps import load_app
from andon.cli.logs import Format, log_format, log_level, log_to_stderr
from andon.cli.loops import event_loop
from andon.cli.session import Session, common
from andon.cli.values import DURATION
from andon.contract.limits import MAX_PAYLOAD
from andon.model.errors import ConfigurationError
from andon.model.urls import shown
from andon.worker.event_loop import Loop
from andon.worker.tuning import SERVING_SWITCH_INTERVAL_S, tune_process

logger = logging.getLogger("andon.cli")


@click.command()
@click.argument("app")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8640, show_default=True)
@click.option("--grace", type=DURATION, help="What requests in hand get at a stop (10s).")
@click.option("--rate-limit", type=float, metavar="N", help="Requests a second per address.")
@click.option(
    "--max-payload",
    type=click.IntRange(min=1),
    default=MAX_PAYLOAD,
    show_default=True,
    metavar="BYTES",
    help="Of a result; of arguments with results in them 64 times as many.",
)
@click.option("--certificate", metavar="FILE", help="PEM; speak TLS with it.")
@click.option("--private-key", metavar="FILE", help="PEM; default: in the certificate's file.")
@click.option("--client-ca", metavar="FILE", help="PEM; admit who shows a certificate of these.")
@click.option("--require-token", is_flag=True, help="Ask for tokens on loopback too.")
@click.option("--public-url", metavar="URL", help="Where others reach it: https://tasks.example.")
@click.option(
    "--proxy", multiple=True, metavar="ADDRESS", help="Believe its X-Forwarded-Proto and -Port."
)
@click.option("--no-board", is_flag=True, help="Show no board at /.")
@click.option("--no-timekeeper", is_flag=True, help="Leave timers to others.")
@click.option("--alert-commands", is_flag=True, help="Run the programs that are targets of alerts.")
@click.option("--taskcluster", is_flag=True, help="Be a Taskcluster queue too, under /api/queue.")
@click.option("--claim-timeout", type=DURATION, help="Of its runs, between two reclaims (20m).")
@click.option("--claim-wait", type=DURATION, help="Longest wait of its claimWork (20s).")
@click.option(
    "--one-claim-per-worker",
    is_flag=True,
    help="Its workers ask for no more before they have begun: repeat an answer that was lost.",
)
@click.option("--messages", metavar="FILE", help="TOML; deliver its messages as this file says.")
@event_loop
@log_level
@log_format
@common
def serve(
    session: Session,
    *,
    app: str,
    host: str,
    port: int,
    grace: float | None,
    rate_limit: float | None,
    max_payload: int,
    certificate: str | None,
    private_key: str | None,
    client_ca: str | None,
    require_token: bool,
    public_url: str | None,
    proxy: tuple[str, ...],
    no_board: bool,
    no_timekeeper: bool,
    alert_commands: bool,
    taskcluster: bool,
    claim_timeout: float | None,
    claim_wait: float | None,
    one_claim_per_worker: bool,
    messages: str | None,
    loop: Loop,
    quiet: bool,
    log_level: str | None,
    log_format: Format,
) -> None:
    """Serve an application's tasks over HTTP, and the board at /.

    On loopback it is open to everybody on this machine; elsewhere it asks for the tokens that
    andon token makes, and Taskcluster's clients for signatures. Behind a proxy on the same
    machine, say --require-token.

    APP is module:attribute, or path/to/file.py[:attribute]. Tasks are submitted, watched and
    controlled here; to run them, start workers beside it. SIGTERM or SIGINT ends it in good order.
    """
    log_to_stderr(quiet=quiet, level=log_level, form=log_format)
    try:
        from andon.service.server import run
        from andon.service.service import Service
        from andon.service.settings import Settings
        from andon.service.taskcluster.messages.configuration import (
            MessageSettings,
            read_message_settings,
        )
        from andon.service.taskcluster.settings import TaskclusterSettings
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"The service needs {error.name}. Install it with: pip install 'andon[server]'."
        ) from error
    of_the_face = claim_timeout is not None or claim_wait is not None or one_claim_per_worker
    if not taskcluster and (of_the_face or messages is not None):
        raise ConfigurationError(
            "--claim-timeout, --claim-wait, --one-claim-per-worker and --messages go with "
            "--taskcluster."
        )
    face = TaskclusterSettings(
        claim_timeout=1_200.0 if claim_timeout is None else claim_timeout,
        claim_wait=20.0 if claim_wait is None else claim_wait,
        one_claim_per_worker=one_claim_per_worker,
        messages=MessageSettings() if messages is None else read_message_settings(messages),
    )
    settings = Settings(
        host=host,
        port=port,
        timekeeper=not no_timekeeper,
        board=not no_board,
        alert_commands=alert_commands,
        certificate=certificate,
        private_key=private_key,
        client_ca=client_ca,
        require_token=require_token,
        public_url=public_url,
        proxies=proxy,
        rate_limit=rate_limit,
        max_payload=max_payload,
        shutdown_grace=10.0 if grace is None else grace,
        taskcluster=face if taskcluster else None,
    )
    application = load_app(app, url=session.given_url)
    tune_process(SERVING_SWITCH_INTERVAL_S)
    run(
        Service(application, settings),
        ready=lambda url: logger.info("Serving the tasks of %s at %s", shown(application.url), url),
        loop=loop,
    )
