-- What scripts write of a record when it is new, when it is claimed and when it moves: one place for
-- each. Each run makes every function again, so the fast paths have these in place of their calls, which
-- they mark, `{{put_new(...)}}`, and declare the variables where they name them (`scripts.py`).
--
-- A record is a hash: d (definition), s (status), x (index entry), st (state), v (version), c (run
-- cell, empty once the run has ended), r (result), q (the run that was asked to stop).
--
-- A version is the revision, the creation, the number, with "h" once the moves are kept apart from the
-- status, and the definition's digest. Its head is the revision and the creation, each with a space; its
-- tail is what comes after.
--
-- The number decides between equals of a lane, see `set_serial`.
local {{fields.entry DEAD_AT, FIRST_LIMIT, RUN_NUMBER, FENCE}}

-- A new record; `cell` if it is created as a run.
local function put_new(task, definition, status, entry, state, version, cell)
  if cell then
    call('HSET', task, 'd', definition, 's', status, 'x', entry, 'st', state, 'v', version, 'c', cell)
  else
    call('HSET', task, 'd', definition, 's', status, 'x', entry, 'st', state, 'v', version)
  end
end

-- A move. `result` is nil if none is set, and false if none is there any more. `ends`: it ends a run.
local function put_move(task, status, entry, state, version, result, ends)
  if not ends then
    call('HSET', task, 's', status, 'x', entry, 'st', state, 'v', version)
    if result then call('HSET', task, 'r', result) end
  elseif result then
    call('HSET', task, 's', status, 'x', entry, 'st', state, 'v', version, 'c', '', 'r', result)
  else
    call('HSET', task, 's', status, 'x', entry, 'st', state, 'v', version, 'c', '')
  end
  if result == false then call('HDEL', task, 'r') end
end

-- What the runs of a claim share, so that it is packed once, and the stamp of the last run: its fence and
-- timer are text. A cell is an array of ten (`records.py`), an event one of six.
local run_version, run_cell, run_event, run_fence, run_timer, claim_worker, claim_token, claim_now, claim_until, claim_until_text,
  cell_begins, cell_ends, fence_and_ends, event_begins, next_revision, last_before, last_number

local function begin_claim(worker, token, lease_until)
  claim_worker, claim_token, claim_now, claim_until = worker, token, string.format('%d', now), lease_until
  claim_until_text = string.format('%d', lease_until)
  cell_ends = cmsgpack.pack(worker, token, now, lease_until, now, 0, '')
  fence_and_ends = cmsgpack.pack(now) .. cell_ends
end

-- What a claim stamps on a record, whose version is the revision `before` and the rest; `place` is what
-- number the run has in the claim. A short text is packed as its length and itself.
local function stamp(id, x, before, rest, place)
  local number = x[RUN_NUMBER]
  if before ~= last_before or number ~= last_number then
    last_before, last_number, next_revision = before, number, string.format('%d', before + 1)
    cell_begins = '\154' .. cmsgpack.pack(before + 1)
    event_begins = 'C\150' .. cmsgpack.pack(before + 1, now, number, claim_worker)
  end
  local fence, cell_rest = x[FENCE] + 1, fence_and_ends
  run_fence, run_timer = claim_now, claim_until_text
  if fence > now then
    run_fence, cell_rest = string.format('%d', fence), cmsgpack.pack(fence) .. cell_ends
  end
  if x[FIRST_LIMIT] or x[DEAD_AT] then
    local limit = x[FIRST_LIMIT] and now + x[FIRST_LIMIT] or claim_until
    run_timer = string.format('%d', math.min(claim_until, limit, x[DEAD_AT] or claim_until))
  end
  local run = claim_token .. '-' .. place
  local size, id_size = #run, #id
  run = size < 32 and string.char(160 + size) .. run or cmsgpack.pack(run)
  run_version, run_cell = next_revision .. rest, cell_begins .. run .. cell_rest
  run_event = event_begins .. run .. (id_size < 32 and string.char(160 + id_size) .. id or cmsgpack.pack(id))
end

local function put_stamp(task)
  call('HSET', task, 'st', 'active', 'v', run_version, 'c', run_cell)
end

-- The sorted sets that a record stands in for its state, but for its lane: `put` is given the key and
-- the score of each.
local function each_place(put, queue, state, created, timer, dead_letter, names)
  put(P .. 'state:' .. queue .. '|' .. state, created)
  if {{state in waits_for_time}} then put(P .. 'due:' .. queue .. '|' .. state, timer or 0) end
  if dead_letter and state ~= 'active' then
    put(P .. 'dead:' .. queue, created)
    put(P .. 'dead', created)
  end
  if names then
    for _, name in ipairs(names) do put(P .. 'list:' .. name, created) end
  end
end

-- Add members, of a list those after `from` up to `to`, to what goes into a sorted set, by key.
local function gather(sets, key, score, members, from, to)
  local flat = sets[key] or {}
  sets[key] = flat
  local n = #flat
  for i = from + 1, to do
    flat[n + 1], flat[n + 2] = score, members[i]
    n = n + 2
  end
end

-- A new task's number, of twelve hexadecimal digits: three of the day on which it came, which begin again
-- after eleven years, and nine of which of its queue it was on that day, as the daily history counts them.
-- (Those of older releases, and of what is restored, come before: they count from 1.)
local serial
local function set_serial(day, nth)
  serial = string.format('%03X%09X', day % 4096, nth)
end

-- What the daily history (`daily.py`) counts: `what` is a tally and a queue.
local counted -- with these
local function count_day(day, what, n)
  counted = call('HINCRBY', P .. 'daily:' .. day, what, n)
  if counted == tonumber(n) then call('SADD', P .. 'days', day) end
end

-- The same, gathered while a script runs.
local tallies = {}
local function tally(queue, day, of, n)
  local of_day, what = tallies[day], of .. '|' .. queue
  if not of_day then
    of_day = {}
    tallies[day] = of_day
  end
  of_day[what] = (of_day[what] or 0) + n
end
-- How many of these are counted so far, by this script and by those before.
local so_far
local function look_at_tally(queue, day, of)
  local what = of .. '|' .. queue
  so_far = tonumber(call('HGET', P .. 'daily:' .. day, what) or 0) + (tallies[day] and tallies[day][what] or 0)
end
local function put_tallies()
  for day, of_day in pairs(tallies) do
    for what, n in pairs(of_day) do {{count_day(day, what, n)}} end
  end
end
