"""The endpoints: each asks the agent one thing.

Functions that call the agent are plain functions, which FastAPI runs in threads: the agent waits for its disk, and the
event loop goes on meanwhile. The agent does one call after the other, whatever thread it comes from.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, cast

from fastapi import APIRouter, Body, FastAPI, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

import fedbandits
from fedbandits.deploy.embedded.agent import Agent
from fedbandits.deploy.errors import AgentError
from fedbandits.deploy.http import choices, models
from fedbandits.deploy.http.access import Token
from fedbandits.deploy.http.body import bounded_by
from fedbandits.deploy.http.configuration import Limits
from fedbandits.deploy.http.door import Door
from fedbandits.deploy.http.metrics import MEDIA_TYPE, Meter
from fedbandits.deploy.http.page import HEADERS, reference_page
from fedbandits.deploy.http.refusals import MEANING, RefusedError, complaints, log, refusal
from fedbandits.deploy.text import shown

TITLE = "fedbandits agent"
PUBLIC = ("/health", "/openapi.json", "/docs")
"""Paths that need no token: they tell that the service is there, and what it takes."""
_REWARDED_BY = {
    "reward": {
        "operationId": "reward",
        "description": "The reward of a decision is told with its id.",
        "requestBody": {"decision": "$response.body#/id", "value": 1.0},
    }
}


def create_app(agent: Agent, limits: Limits, token: Token | None) -> FastAPI:
    """The service of `agent`; whoever opened the agent closes it, after the service has stopped."""
    meter = Meter()
    app = FastAPI(
        title=TITLE,
        version=fedbandits.__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    secured = [Security(HTTPBearer(auto_error=False))] if token is not None else []  # describes; the door checks
    asking = APIRouter(route_class=bounded_by(limits), dependencies=secured, responses=_refusals(401, 403, 503))
    looking = APIRouter(responses=_refusals())

    @asking.post("/decisions", responses=_refusals(400, 408, 409, 413, 415, 422) | {200: {"links": _REWARDED_BY}})
    def decide(asked: Annotated[choices.Asked, Body()]) -> choices.Chosen | choices.ManyChosen:
        """Choose one of the arms, once or for several choices at once. Each request is a decision of its own, also one
        that is sent again.
        """
        if isinstance(asked, choices.Choice):
            choices.check_choices([asked], limits)
            return choices.Chosen.of(agent.decide(asked.arms, who=asked.who, episode=asked.episode))
        wanted = asked.decisions
        choices.check_choices(wanted, limits)
        decided = agent.decide_many(
            [choice.arms for choice in wanted],
            who=[choice.who for choice in wanted],
            episodes=[choice.episode for choice in wanted],
        )
        return choices.ManyChosen(decisions=[choices.Chosen.of(decision) for decision in decided])

    @asking.post("/rewards", responses=_refusals(400, 404, 408, 409, 413, 415, 422))
    def reward(told: Annotated[models.Told, Body()]) -> models.Counted | models.Outcomes:
        """Tell what came of decisions: one, or many at once. Late, in any order, repeated: each is counted once."""
        if isinstance(told, models.Reward):
            models.check_rewards([told], limits)
            return _counted(told, agent.reward(told.decision, told.value))
        models.check_rewards(told.rewards, limits)
        return _all_counted(agent, told.rewards)

    @asking.post("/finish", responses=_refusals(400, 404, 408, 413, 415, 422))
    def finish(told: Annotated[models.Ending, Body()]) -> models.Ended:
        """Tell that an episode is over before it had all its stages; told again, nothing changes."""
        return models.Ended(episode=told.episode, outcome="ended" if agent.finish(told.episode) else "over")

    @asking.get("/status")
    def status() -> models.Standing:
        """How the agent is getting on."""
        settings = agent.settings
        return models.Standing(
            algorithm=settings.algorithm.about.name,
            dim=settings.dim,
            arms=settings.arms,
            agents=settings.agents,
            identity=settings.identity,
            **agent.status().plain(),
        )

    @asking.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    def metrics() -> Response:
        """The agent's counters and the time that requests took, for Prometheus."""
        return Response(meter.page(agent.status()), headers={"Content-Type": MEDIA_TYPE})

    @looking.get("/health")
    async def health() -> models.Health:
        """Whether the service answers. The agent is not asked, so that a busy disk is not taken for a dead service."""
        return models.Health()

    @looking.get("/openapi.json", include_in_schema=False)
    async def openapi() -> dict[str, Any]:
        return schema()

    @looking.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(reference_page(schema()), headers=HEADERS)

    app.include_router(asking)
    app.include_router(looking)

    @cache
    def schema() -> dict[str, Any]:
        return _schema(app, agent, limits)

    app.openapi = schema  # type: ignore[method-assign]
    paths = [route.path for router in (asking, looking) for route in router.routes]  # type: ignore[attr-defined]
    _refuse_in_json(app)
    app.add_middleware(Door, token=token, most_requests=limits.most_requests, paths=paths, public=PUBLIC, meter=meter)
    return app


def _counted(told: models.Reward, counted: bool) -> models.Counted:
    return models.Counted(decision=told.decision, outcome="counted" if counted else "duplicate")


def _refused(told: models.Reward, error: AgentError) -> models.Refused:
    why = refusal(error)
    return models.Refused.model_validate({"decision": told.decision, "code": why.code, "message": why.message})


def _all_counted(agent: Agent, rewards: list[models.Reward]) -> models.Outcomes:
    """Each reward on its own: one that is refused does not hold up the others."""
    told_apart = agent.rewards_apart((told.decision, told.value) for told in rewards)
    results = [
        _refused(told, outcome) if isinstance(outcome, AgentError) else _counted(told, outcome)
        for told, outcome in zip(rewards, told_apart, strict=True)
    ]
    outcomes = [result.outcome for result in results]
    return models.Outcomes(
        counted=outcomes.count("counted"),
        duplicate=outcomes.count("duplicate"),
        refused=outcomes.count("refused"),
        results=results,
    )


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": models.Error, "description": MEANING[status]} for status in sorted({*statuses, 405, 500})}


def _schema(app: FastAPI, agent: Agent, limits: Limits) -> dict[str, Any]:
    about = agent.settings.algorithm.about.name
    found = get_openapi(
        title=app.title,
        version=app.version,
        description=f"One agent of a federation: {about}, {agent.settings.dim} features for each arm.",
        routes=app.routes,
    )
    models.describe_sizes(found["components"]["schemas"], agent.settings, limits)
    return found


def _refuse_in_json(app: FastAPI) -> None:
    """Whatever goes wrong is told in the one way; what only the operator should know is logged."""

    async def refused(_: Request, error: Exception) -> Response:
        return cast(RefusedError, error).response()

    async def by_agent(_: Request, error: Exception) -> Response:
        return refusal(cast(AgentError, error)).response()

    async def unreadable(_: Request, error: Exception) -> Response:
        return RefusedError("invalid_request", complaints(cast(RequestValidationError, error).errors())).response()

    async def by_router(request: Request, error: Exception) -> Response:
        problem = cast(HTTPException, error)
        if problem.status_code == 405:
            return RefusedError("method_not_allowed", "this path knows another method", problem.headers).response()
        return RefusedError("not_found", "there is no such path; see /docs").response()

    async def by_accident(request: Request, error: Exception) -> Response:
        log.error("%s %s failed: %s", shown(request.method), shown(request.url.path), type(error).__name__)
        return RefusedError("internal", "a defect of the service; its log tells more").response()

    app.add_exception_handler(RefusedError, refused)
    app.add_exception_handler(AgentError, by_agent)
    app.add_exception_handler(RequestValidationError, unreadable)
    app.add_exception_handler(HTTPException, by_router)
    app.add_exception_handler(Exception, by_accident)
