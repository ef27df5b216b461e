"""Tracebacks as people read them."""

from andon.lifecycle.tracebacks import folded

WHOLE = """Traceback (most recent call last):
  File "/srv/venv/lib/python3.11/site-packages/andon/worker/runs.py", line 10, in _perform
    value = await executor.execute(run)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/venv/lib/python3.11/site-packages/andon/worker/executors/async_.py", line 5, in execute
    return await handler(*args)
  File "/srv/shop/tasks.py", line 7, in charge
    pay(order)
    ~~~^^^^^^^
  File "/srv/shop/andon_helpers.py", line 3, in pay
    raise ValueError("bad")
ValueError: bad
"""


def test_andons_own_frames_are_one_line_and_the_users_stay():
    assert (
        folded(WHOLE)
        == """Traceback (most recent call last):
  … 2 frames of Andon's own
  File "/srv/shop/tasks.py", line 7, in charge
    pay(order)
    ~~~^^^^^^^
  File "/srv/shop/andon_helpers.py", line 3, in pay
    raise ValueError("bad")
ValueError: bad"""
    )


def test_a_traceback_of_andons_frames_alone_is_left_whole():
    own = "\n".join([*WHOLE.split("\n")[:6], "ValueError: bad"])
    assert folded(own) == own


def test_a_cause_keeps_its_words_between_the_two():
    chained = (
        f"{WHOLE}\nDuring handling of the above exception, another exception occurred:\n\n{WHOLE}"
    )
    assert folded(chained).count("2 frames of Andon's own") == 2
    assert "During handling of the above exception" in folded(chained)


def test_no_traceback_is_no_line():
    assert folded("") == ""
