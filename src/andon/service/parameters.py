"""Query parameters that several routes share."""

from typing import Annotated

from litestar.params import QueryParameter

from andon.lifecycle.daily import KEPT_DAYS

States = Annotated[
    str | None,
    QueryParameter(
        name="state", description="Names of states, separated by commas; foreign ones with `as`."
    ),
]
Queue = Annotated[str | None, QueryParameter(description="Tasks of this queue.")]
TaskName = Annotated[str | None, QueryParameter(description="Tasks of this name.")]
Tag = Annotated[str | None, QueryParameter(description="Tasks with this tag.")]
Key = Annotated[str | None, QueryParameter(description="Tasks with this concurrency key.")]
Group = Annotated[str | None, QueryParameter(description="Tasks of this group.")]
WorkerId = Annotated[str | None, QueryParameter(description="Tasks that this worker is running.")]
Order = Annotated[
    bool | None,
    QueryParameter(
        description="Newest first. If nothing is said: by due time where all wait for a time, else "
        "in the order of creation (`false`)."
    ),
]
Flag = Annotated[bool, QueryParameter(description="Newest first.")]
Wait = Annotated[
    float,
    QueryParameter(ge=0, description="Answer once it has ended, or after so many seconds."),
]
Limit = Annotated[
    int, QueryParameter(ge=1, le=10_000, description="Most on a page; the service sets a bound.")
]
ListLimit = Annotated[
    int | None,
    QueryParameter(
        ge=1,
        le=10_000,
        description="Most on a page, 100 if nothing is said; the service sets a bound. Of "
        "`application/x-ndjson`: most in all, else everything.",
    ),
]
Cursor = Annotated[str, QueryParameter(description="Go on after the page that gave it.")]
Days = Annotated[
    int, QueryParameter(ge=1, le=KEPT_DAYS, description="How many days, today among them.")
]
