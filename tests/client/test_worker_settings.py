"""What an application tells its worker beside what the caller says."""

import pytest

from andon import Andon


@pytest.mark.parametrize(("profile", "limit"), [("jobbers", 1), ("native", None)])
def test_a_profile_that_limits_each_type_limits_it_in_the_worker(
    profile: str, limit: int | None
) -> None:
    app = Andon("memory://", profile=profile)
    assert app.worker_config({}).per_type == limit
    assert app.worker_config({"per_type": 3}).per_type == 3


@pytest.mark.parametrize(("profile", "lease"), [("taskcluster", 1_200), ("native", 30)])
def test_claims_hold_as_long_as_the_profile_says(profile: str, lease: float) -> None:
    app = Andon("memory://", profile=profile)
    assert app.worker_config({}).lease == lease
    assert app.worker_config({"lease": 2}).lease == 2
