-- Shared by the scripts: each is given the parts that it uses, by `scripts.py`, between `head.lua` and
-- itself. A part begins with `local` at the start of a line. Constants (a local name in capitals, set
-- to a number) are written into the text where they are used.
--
-- Invariant: a script leaves record, indexes, event and hints of a task consistent, and reads all
-- that may refuse a change before it writes the first part of it.

-- Places in an index entry, as `records.packed_entry` packs it. SCORE, CREATED and TIMER are
-- strings: a number would be printed and read again each time it goes into an index.
local STATE, QUEUE, NAME, KEY, GROUP, TIMER, SCORE, DEAD_AT, FIRST_LIMIT = 1, 2, 3, 4, 5, 6, 7, 8, 9
local UNIQUE, UNIQUE_UNTIL, DEAD_LETTER, REMAINING, CREATED, RUN_NUMBER, FENCE = 10, 11, 12, 13, 14, 15, 16
local FREES_ON_CLAIM = 17
-- Places in a run cell.
local C_REVISION, C_RUN, C_FENCE, C_WORKER, C_TOKEN, C_AT, C_LEASE, C_HEARTBEAT, C_PROGRESS, C_MESSAGE =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10

local WINDOW_MS = 600000 -- how long the stub of a deleted task stays
local NEAR_MS = 5000     -- a timer nearer than this is hinted
local LIVE = {blocked = true, scheduled = true, pending = true, active = true, retry = true}

local function int(n) return string.format('%d', n) end -- as %.0f, at a third of its cost

-- Index entries by their packed form, which tasks created together share. Nobody changes one.
local entries = {}
local function entry_of(packed)
  local found = entries[packed]
  if not found then
    found = cmsgpack.unpack(packed)
    entries[packed] = found
  end
  return found
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

local function finish()
  flush()
  if #log > 0 then
    in_turn('RPUSH', P .. 'log', log)
    if not hints.ready then hint('events', '') end -- who hears of events hears of ready tasks too
  end
  local channel = string.match(P, '^{(.*):%d+}:$') .. ':hints:'
  for kind, names in pairs(hints) do
    call('PUBLISH', channel .. kind, table.concat(names, '\n'))
  end
end

-- A write is refused where the namespace is not set up, or is ahead of this release.
local function refuse_strangers()
  local found = call('HGET', P .. 'meta', 'min_writer')
  if not found then return redis.error_reply('ANDONEMPTY the namespace is not set up') end
  if tonumber(found) > 1 then
    return redis.error_reply('ANDONNEWER records are written as version ' .. found)
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

-- What limits a queue, in a word, kept where the short ways look: only a "sized" one can be full,
-- and a "free" one has no limit at all.
local function bounds_of(config)
  if config.size then return 'sized' end
  return next(config) and 'open' or 'free'
end

local lists = {}
local function list_of(queue, state)
  local of = lists[queue]
  if not of then
    of = {}
    lists[queue] = of
  end
  local key = of[state]
  if not key then
    key = P .. 'state:' .. queue .. '|' .. state
    of[state] = key
  end
  return key
end

-- A version: revision, creation, number of twelve digits, with "h" once the moves are kept apart
-- from the status, and the definition's digest. Its head is the revision and the creation, each with
-- a space; its tail is what comes after.
local function numbered(n) return string.format('%012d', n) end
local function version_of(head, number, apart, digest)
  return head .. number .. apart .. ' ' .. digest
end
local function parts_of(version)
  return string.match(version, '^(%d+) (%d+ )(%d+)(h?) (.*)$')
end
local function keep_apart(id, event)
  call('RPUSH', P .. 'history:' .. id, event)
  call('LTRIM', P .. 'history:' .. id, -1000, -1)
end

-- The name under which a task stands in its lane: equals go by the number of their creation.
local function member_of(number, id) return number .. id end
local function id_of(member) return string.sub(member, 13) end

-- Lanes: the ready tasks of one queue and type, by priority and order.

local function lane_of(queue, name) return P .. 'ready:' .. queue .. '|' .. name end

local lanes = {} -- those known to be listed, by queue and type
local function offer(queue, name, score, member)
  local of = lanes[queue]
  if not of then
    of = {}
    lanes[queue] = of
  end
  local lane = of[name]
  if not lane then
    lane = lane_of(queue, name)
    of[name] = lane
    call('SADD', P .. 'lanes:' .. queue, name)
    hint('ready', queue)
  end
  put_in(lane, score, member)
end

local function tidy_lane(queue, name)
  flush()
  if call('EXISTS', lane_of(queue, name)) == 0 then
    call('SREM', P .. 'lanes:' .. queue, name)
    if lanes[queue] then lanes[queue][name] = nil end
  end
end

-- The gate of a concurrency key. A task that is ready or active is admitted; one that waits
-- outside is parked, in the order of its lane, and no claim looks at it.

local function parked_of(queue, key) return P .. 'parked:' .. queue .. '|' .. key end

local function count(hash, field, change)
  if call('HINCRBY', hash, field, change) == 0 then call('HDEL', hash, field) end
end

local function admit(queue, key, change) count(P .. 'admitted:' .. queue, key, change) end
local function run_of_key(queue, key, change) count(P .. 'running:' .. queue, key, change) end

local function park(queue, key, score, member)
  if call('ZADD', parked_of(queue, key), score, member) == 1 then
    count(P .. 'parked', queue, 1)
    call('ZADD', P .. 'gates:' .. queue, 0, key)
  end
end

local function unpark(queue, key, member)
  local parked = parked_of(queue, key)
  if call('ZREM', parked, member) == 0 then return false end
  count(P .. 'parked', queue, -1)
  if call('EXISTS', parked) == 0 then call('ZREM', P .. 'gates:' .. queue, key) end
  return true
end

-- Admit parked tasks of a key, the first in order first, while its limit has room. At most `most`
-- of them; whether all that may go through have.
local function promote(queue, key, most)
  local limit = config_of(queue).per_key
  local room = most
  if limit then
    local admitted = tonumber(call('HGET', P .. 'admitted:' .. queue, key) or 0)
    room = math.min(limit - admitted, most)
  end
  if room <= 0 then return 0 end
  local first = call('ZRANGE', parked_of(queue, key), 0, room - 1, 'WITHSCORES')
  for i = 1, #first, 2 do
    local member = first[i]
    local x = entry_of(call('HGET', P .. 'task:' .. id_of(member), 'x'))
    unpark(queue, key, member)
    admit(queue, key, 1)
    offer(queue, x[NAME], first[i + 1], member)
  end
  return #first / 2
end

local function place(x, number, id)
  local queue, key = x[QUEUE], x[KEY]
  local member = member_of(number, id)
  if key then
    if config_of(queue).per_key then
      -- all of the key compete by their order for what room there is
      park(queue, key, x[SCORE], member)
      promote(queue, key, 1000)
      return
    end
    admit(queue, key, 1)
  end
  offer(queue, x[NAME], x[SCORE], member)
end

-- Take a pending task out of its lane or its parking; its key is given its place back, and the
-- caller promotes once the task stands where it goes.
local function unplace(x, number, id)
  local queue, key = x[QUEUE], x[KEY]
  local member = member_of(number, id)
  if key and unpark(queue, key, member) then return end
  flush()
  if call('ZREM', lane_of(queue, x[NAME]), member) == 1 then tidy_lane(queue, x[NAME]) end
  if key then admit(queue, key, -1) end
end

-- Unique keys of this partition. A reservation is "until since id", until being 0 for ever.

local function reservation(unique)
  local found = call('GET', P .. 'unique:' .. unique)
  if not found then return nil end
  local till, since, id = string.match(found, '^(%d+) (%d+) (.*)$')
  return id, tonumber(till), tonumber(since), found
end

local function holder_of(unique, id)
  local holder, till = reservation(unique)
  if not holder or holder == id or (till > 0 and till <= now) then return nil end
  return holder
end

local function lapsed(x) return x[UNIQUE_UNTIL] and x[UNIQUE_UNTIL] <= now end

local function reserve(unique, till, id)
  call('SET', P .. 'unique:' .. unique, int(till or 0) .. ' ' .. int(now) .. ' ' .. id)
end

local function let_go_of(unique, id)
  if reservation(unique) == id then call('DEL', P .. 'unique:' .. unique) end
end

-- Edges. `edges:` has the children of a parent by name, `flags:` what is known of each,
-- `untold:` those not told of its end, `loading:` those that load its result.

local function held(id)
  return call('EXISTS', P .. 'untold:' .. id, P .. 'loading:' .. id) > 0
end

local function any_edges(id) return call('EXISTS', P .. 'edges:' .. id) == 1 end

-- Edges let go: a fan-out may be finished, a deletion put off may be due again.
local function free(id)
  if call('EXISTS', P .. 'untold:' .. id) == 0 then call('ZREM', P .. 'fanout', id) end
  local found = call('HMGET', P .. 'task:' .. id, 'st', 'x')
  if not found[1] or LIVE[found[1]] or held(id) then return end
  local x = entry_of(found[2])
  if x[TIMER] then arm(id, x[TIMER]) end
end

-- What is left of a task that was deleted within the window: until, digest, state, write ids.
local function stub_of(id)
  local found = call('GET', P .. 'stub:' .. id)
  if not found then return nil end
  local stub = cmsgpack.unpack(found)
  if stub[1] <= now then return nil end
  return stub
end

-- Moves between states.

local function leave(x, st, number, id)
  local queue, key = x[QUEUE], x[KEY]
  take_out(list_of(queue, st), id)
  if x[DEAD_LETTER] and st ~= 'active' then take_out(P .. 'dead:' .. queue, id) end
  if st == 'pending' then
    if x[SCORE] then unplace(x, number, id) end
  elseif st == 'active' then
    if key then
      run_of_key(queue, key, -1)
      admit(queue, key, -1)
    end
    local config = config_of(queue)
    if config.concurrent or config.spread then hint('ready', queue) end
  elseif st == 'blocked' then
    call('DEL', P .. 'satisfied:' .. id)
  end
end

local function enter(x, number, id)
  local queue, state = x[QUEUE], x[STATE]
  put_in(list_of(queue, state), x[CREATED], id)
  if x[DEAD_LETTER] then put_in(P .. 'dead:' .. queue, x[CREATED], id) end
  if state == 'pending' and x[SCORE] then place(x, number, id) end
end

local known = {}

-- A record that was not there before takes its places.
local function introduce(x, number, id)
  local queue = x[QUEUE]
  if not known[queue] then
    known[queue] = true
    if call('SADD', P .. 'queues', queue) == 1 then
      call('HSET', P .. 'meta', 'queue:' .. queue, bounds_of(config_of(queue)))
      hint('config', '')
    end
  end
  enter(x, number, id)
  if x[TIMER] then arm(id, x[TIMER]) end
  if x[KEY] then put_in(P .. 'key:' .. x[KEY], x[CREATED], id) end
  if x[GROUP] then put_in(P .. 'group:' .. x[GROUP], x[CREATED], id) end
end

-- The outcome where an id is taken: digest and state of what is there, or was a moment ago.
local function taken(id)
  local found = call('HMGET', P .. 'task:' .. id, 'st', 'v')
  if found[1] then
    local _, _, _, _, digest = parts_of(found[2])
    return {'e', digest, found[1]}
  end
  local stub = stub_of(id)
  if stub then return {'e', stub[2], stub[3]} end
end

local function set_timer(id, at)
  if at then arm(id, at) else take_out(TIMERS, id) end
end

-- Remove a record with every key of its own; a stub stays for the window, and `meta` tells until when
-- there are any.
local are_stubs_told
local function remove(id, x, state, digest, writes)
  if x[KEY] then take_out(P .. 'key:' .. x[KEY], id) end
  if x[GROUP] then take_out(P .. 'group:' .. x[GROUP], id) end
  take_out(TIMERS, id)
  take_out(P .. 'fanout', id)
  call('DEL', P .. 'task:' .. id, P .. 'history:' .. id, P .. 'edges:' .. id, P .. 'flags:' .. id,
    P .. 'untold:' .. id, P .. 'loading:' .. id, P .. 'satisfied:' .. id)
  if not are_stubs_told then
    are_stubs_told = true
    call('HSET', P .. 'meta', 'stubs', int(now + WINDOW_MS))
  end
  call('SET', P .. 'stub:' .. id, cmsgpack.pack({now + WINDOW_MS, digest, state, unpack(writes)}),
    'PX', WINDOW_MS)
end

-- The parts of a record that a reader needs, in the order of `records.task_of`. The cell is empty
-- once its run has ended, and not there before the first.
local function parts(id)
  return call('HMGET', P .. 'task:' .. id, 'd', 's', 'c', 'r', 'st', 'v')
end

-- A record as part of a reply: its id and its parts.
local function hand_out(reply, id, found)
  local n = #reply
  reply[n + 1] = id
  for i = 1, 6 do reply[n + 1 + i] = found[i] end
end

-- The moves of a task whose status no longer tells them, as far as the newest of the log has them.
local function salvage(id)
  local found = {}
  for page = 1, 20 do
    local events = call('LRANGE', P .. 'log', -1000 * page, -1000 * (page - 1) - 1)
    for i = #events, 1, -1 do
      if string.find(events[i], id, 1, true) then table.insert(found, 1, events[i]) end
    end
    if #events < 1000 or #found >= 16 then break end
  end
  for _, event in ipairs(found) do keep_apart(id, event) end
end

-- Take a record that does not decode out of every index, in one step.
local function set_aside(id)
  local found = call('HMGET', P .. 'task:' .. id, 'v', 'st', 'x')
  local st = found[2]
  if not st or st == 'unknown' then return end
  local revision, created, number, apart, digest = parts_of(found[1])
  local x = cmsgpack.unpack(found[3])
  leave(x, st, number, id)
  if x[KEY] then promote(x[QUEUE], x[KEY], 1000) end
  if x[UNIQUE] then let_go_of(x[UNIQUE], id) end
  local last = revision + 1
  x[STATE], x[SCORE], x[TIMER], x[DEAD_LETTER], x[UNIQUE] = 'unknown', nil, nil, false, nil
  local packed = {}
  for i = 1, FREES_ON_CLAIM do packed[i] = x[i] == nil and cjson.null or x[i] end
  put_in(list_of(x[QUEUE], 'unknown'), x[CREATED], id)
  call('HDEL', P .. 'task:' .. id, 'c', 'q')
  call('HSET', P .. 'task:' .. id, 'st', 'unknown', 'v', version_of(int(last) .. ' ' .. created, number, 'h', digest),
    'x', cmsgpack.pack(packed))
  take_out(TIMERS, id)
  log[#log + 1] = 'U' .. cmsgpack.pack({last, now, st, id})
  if apart == '' then salvage(id) end
  keep_apart(id, log[#log])
  hint('task', id)
end
