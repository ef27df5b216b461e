"""Alerts: what may be asked of them, in one route."""

from litestar import post
from litestar.params import JSONBody

from andon.engine.http.alerts import AlertCall, AlertReply
from andon.service.calls import Call
from andon.service.routes.engine.shared import caller_of

SCOPE = "admin:alerts"


@post("/alerts", status_code=200)
async def alerts(request: Call, data: JSONBody[AlertCall]) -> AlertReply:
    """Read, set, remove, apply or test alert rules and targets."""
    caller_of(request).require(SCOPE)
    keeper = request.service.engine.alerts
    match data.asks:
        case "shown":
            return AlertReply(shown=await keeper.shown())
        case "preview":
            return AlertReply(preview=await keeper.preview())
        case "put-rule":
            return AlertReply(rule=await keeper.put_rule(data.name, data.fields, data.how))
        case "remove-rule":
            return AlertReply(done=await keeper.remove_rule(data.name))
        case "put-target":
            made = await keeper.put_target(data.name, data.fields, from_afar=True)
            return AlertReply(target=made)
        case "remove-target":
            return AlertReply(done=await keeper.remove_target(data.name))
        case "apply":
            changes = await keeper.apply(data.fields, dry_run=data.dry_run, from_afar=True)
            return AlertReply(changes=changes)
        case "test":
            return AlertReply(task=await keeper.test(data.name))
