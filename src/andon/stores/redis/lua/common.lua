-- Shared by the scripts: each is given the parts that it uses, by `scripts.py`, between `head.lua` and
-- itself. A part begins with `local` at the start of a line. Constants (a local name in capitals, set
-- to a number) are replaced by their values when the script is put together.
--
-- Invariant: a script leaves record, indexes, event and hints of a task consistent, and reads all
-- that may refuse a change before it writes the first part of it. So an item whose record is damaged
-- fails by itself, in `alone`, and the items beside it are done (docs/rulings.md, R36).

-- Places in an index entry, as `packed.py` has them. SCORE, CREATED and TIMER are
-- strings: a number would be printed and read again each time it goes into an index.
local {{fields.entry STATE, QUEUE, KIND, KEY, GROUP, TIMER, SCORE, DEAD_AT, FIRST_LIMIT}}
local {{fields.entry UNIQUE, UNIQUE_UNTIL, DEAD_LETTER, REMAINING, CREATED, RUN_NUMBER, FENCE, SPARE}}
local {{fields.entry FREES_ON_CLAIM, LISTS}}
-- Places in a run cell.
local C_REVISION, C_RUN, C_FENCE, C_WORKER, C_TOKEN, C_AT, C_LEASE, C_HEARTBEAT, C_PROGRESS, C_MESSAGE =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10

local WRITER = {{writer_version}}      -- the newest form of a namespace that these scripts can write
local FEW_LANES = {{few_lanes}}        -- of more, the kinds are kept
local WINDOW_MS = {{submit_window_ms}} -- how long the stub of a deleted task stays
local NEAR_MS = {{near_timer_ms}}      -- a timer nearer than this is hinted
local LIVE = { {{live_states}} }

local function int(n) return string.format('%d', n) end -- as %.0f, at a third of its cost

-- Whether a comes before b, by bytes: Lua's own comparison follows the server's locale.
local function before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- Index entries by their packed form, which tasks created together share. Nobody changes one. False
-- for what is damaged.
local entries = {}
local function unpacked(packed)
  local whole, found = pcall(cmsgpack.unpack, packed)
  return whole and type(found) == 'table' and type(found[QUEUE]) == 'string' and found
end
local function entry_of(packed)
  local found = entries[packed]
  if found == nil then
    found = unpacked(packed)
    entries[packed or ''] = found
  end
  return found
end

-- Fields of a record; none if there is no record, or its key holds something that is not ours.
local function fields_of(id, ...)
  local found = redis.pcall('HMGET', P .. 'task:' .. id, ...)
  if found.err then
    found = {}
    for i = 1, select('#', ...) do found[i] = false end
  end
  return found
end

-- A run cell; false if there is none, or it is damaged.
local function cell_of(packed)
  local whole, cell = pcall(cmsgpack.unpack, packed)
  return whole and type(cell) == 'table' and cell[C_LEASE] and cell
end

-- The outcome of one item; "i" and why, if its record is damaged. From where an item says that it
-- writes, what fails is no fault of its record, and all fails.
local is_writing = false
local function alone(act, ...)
  is_writing = false
  local done, outcome = pcall(act, ...)
  if done then return outcome end
  if is_writing then error(outcome, 0) end
  return {'i', type(outcome) == 'table' and outcome.err or outcome}
end

-- What goes into sorted sets and out of them, by key: one command for each when the script ends,
-- or by `flush` before something looks at them. Nothing is taken out that was put in by the same
-- script, unless flushed in between.
local adds, removals = {}, {}
local function put_in(key, score, member)
  local flat = adds[key]
  if not flat then
    flat = {}
    adds[key] = flat
  end
  local n = #flat
  flat[n + 1], flat[n + 2] = score, member
end

local function take_out(key, member)
  local members = removals[key]
  if members then members[#members + 1] = member else removals[key] = {member} end
end

local function in_turn(command, key, flat)
  local n = #flat
  for i = 1, n, 1000 do call(command, key, unpack(flat, i, math.min(i + 999, n))) end
end

local function flush()
  if next(removals) then
    for key, members in pairs(removals) do in_turn('ZREM', key, members) end
    removals = {}
  end
  if next(adds) then
    for key, flat in pairs(adds) do in_turn('ZADD', key, flat) end
    adds = {}
  end
end

-- Hints, by kind of topic; published together when the script ends.
local hints, hinted = {}, {}
local function hint(kind, name)
  local seen = hinted[kind]
  if not seen then
    hinted[kind], hints[kind] = {[name] = true}, {name}
  elseif not seen[name] then
    seen[name] = true
    local names = hints[kind]
    names[#names + 1] = name
  end
end

-- Events of the partition, appended together when the script ends.
local log = {}

-- A write is refused where the namespace is not set up, or is of another release.
local function refuse_strangers()
  local found = call('HGET', P .. 'meta', 'min_writer')
  if not found or tonumber(found) < WRITER then
    return redis.error_reply('ANDONEMPTY the namespace is not set up')
  end
  if tonumber(found) > WRITER then
    return redis.error_reply('ANDONNEWER it is written as version ' .. found)
  end
end

local TIMERS = P .. 'timers'
local armed = 0 -- last; tasks that move together often share their time
local function arm(id, at)
  put_in(TIMERS, at, id)
  if at ~= armed then
    armed = at
    if tonumber(at) <= now + NEAR_MS then hint('timer', '') end
  end
end

local configs = {}
local function config_of(queue)
  local found = configs[queue]
  if not found then
    found = {}
    local flat = call('HGETALL', P .. 'limits:' .. queue)
    for i = 1, #flat, 2 do found[flat[i]] = tonumber(flat[i + 1]) end
    configs[queue] = found
  end
  return found
end

-- What limits a queue, as one word, kept where the fast paths look: only a "sized" one can be full,
-- and a "free" one has no limit at all.
local function bounds_of(config)
  if config.size then return 'sized' end
  return next(config) and 'open' or 'free'
end

-- Lists of a queue: of the tasks in a state, and of those that wait for a time by due time, else nil.
-- `each_place` puts tasks there.
local function list_of(queue, state) return P .. 'state:' .. queue .. '|' .. state end
local function due_of(queue, state)
  if {{state in waits_for_time}} then return P .. 'due:' .. queue .. '|' .. state end
end

local function parts_of(version)
  return string.match(version, '^(%d+) (%d+ )(%x+)(h?) (.*)$')
end
local function keep_apart(id, event)
  call('RPUSH', P .. 'history:' .. id, event)
  call('LTRIM', P .. 'history:' .. id, -{{history_kept}}, -1)
end
