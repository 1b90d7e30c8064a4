"""The use cases the routes call, named in one place."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from manent_server.retention import prune as pruning
from manent_server.usecases import (
    abandon,
    cancel,
    decide,
    dora,
    explain,
    health,
    inbox,
    inspect,
    listen,
    pause,
    promote,
    recover,
    regate,
    reload,
    review,
    roll_back,
    skip_wait,
    submit,
    timetable,
)
from manent_server.usecases import answer as answering
from manent_server.usecases import authenticate as authentication
from manent_server.usecases import executors as registry
from manent_server.usecases import hear as hearing
from manent_server.usecases import link as linking
from manent_server.usecases import mark as marking
from manent_server.usecases import plan as planning
from manent_server.usecases import recall as recalling
from manent_server.usecases import rerun as rerunning
from manent_server.usecases import restore as restoring
from manent_server.usecases import retry as retrying
from manent_server.usecases import schedule as scheduling
from manent_server.usecases import sign_in as signing_in
from manent_server.usecases import sinks as telling
from manent_server.usecases import tokens as letting_in

Call = Callable[..., Any]


@dataclass(frozen=True)
class Calls:
    """One callable a use case; each takes the desk first."""

    submit: Call = submit.submit
    plan: Call = planning.plan
    promote: Call = promote.promote
    roll_back: Call = roll_back.roll_back
    cancel: Call = cancel.cancel
    skip_wait: Call = skip_wait.skip_wait
    abandon: Call = abandon.abandon
    resolve: Call = answering.answer
    restore: Call = review.review
    decide_restored: Call = restoring.decide
    open_restored: Call = restoring.open_up
    retry: Call = retrying.retry
    rerun: Call = rerunning.rerun
    rerun_plan: Call = rerunning.plan
    approvals: Call = inbox.approvals_of
    approval: Call = inbox.one
    decide: Call = decide.decide
    regate: Call = regate.regate
    mark: Call = marking.put
    lift: Call = marking.lift
    marks: Call = marking.standing
    deploys: Call = inspect.deploys
    deploy: Call = inspect.deploy
    steps: Call = inspect.steps
    attempts: Call = inspect.attempts
    log: Call = inspect.log
    explain: Call = explain.explain
    inventory: Call = inspect.inventory
    environments: Call = inspect.environments
    environment: Call = inspect.environment
    applications: Call = inspect.applications
    dora: Call = dora.figures
    schedule: Call = scheduling.schedule
    pause_schedule: Call = pause.pause
    resume_schedule: Call = pause.resume
    delete_schedule: Call = pause.delete
    schedules: Call = timetable.every
    schedule_of: Call = timetable.one
    schedule_runs: Call = timetable.runs
    schedule_preview: Call = timetable.preview
    schedule_draft: Call = timetable.draft
    events: Call = listen.events
    newest_event: Call = listen.newest
    notices: Call = telling.listed
    resend: Call = telling.resend
    sinks: Call = telling.shown
    resend_all: Call = telling.resend_all
    audit: Call = recalling.recall
    hear: Call = hearing.hear
    hear_too_much: Call = hearing.hear_too_much
    look_link: Call = linking.look
    link: Call = linking.link
    links: Call = linking.links
    unlink: Call = linking.unlink
    executors: Call = registry.executors
    recover: Call = recover.recover
    forget: Call = registry.forget
    authenticate: Call = authentication.authenticate
    create_token: Call = letting_in.create
    tokens: Call = letting_in.listing
    revoke_token: Call = letting_in.revoke
    providers: Call = signing_in.providers
    sign_in: Call = signing_in.sign_in
    sign_out: Call = signing_in.sign_out
    whoami: Call = signing_in.whoami
    sessions: Call = signing_in.live
    end_session: Call = signing_in.end
    newest_end: Call = signing_in.newest_end
    prune: Call = pruning.prune
    reload: Call = reload.reload
    ready: Call = health.ready
